/**
 * Finds the links of a message whose words name another organisation's host than they lead to, or that lead to a host which may
 * pose as another. A name of a host in words is a URL, a name that begins with www., or one that stands alone: the words of a
 * sentence are none, and so a newsletter that counts clicks deceives nobody.
 */
import { type Budget, createHtmlBudget, readMarkup } from "./markup.ts";
import { isHostName, mayBeLookalikeHost, readHost, registrableDomain } from "./organization.ts";
import { visibleHtml } from "./visible.ts";

/** Names of hosts in A-labels. `said` is absent for one that may pose as another, whatever its words. */
export interface DeceptiveLink {
  said?: string;
  leadsTo: string;
}

/** Links that are told; more say the same. */
const MOST_TOLD = 5;
/** Characters of a link's words that are read, and of what it leads to. */
const LONGEST_WORDS = 1_000;
const LONGEST_URL = 10_000;

/** Services that put their own host before a link to check it, for whoever receives the mail. */
const CHECKERS =
  /(?:^|\.)(?:safelinks\.protection\.outlook\.com|urldefense\.com|urldefense\.proofpoint\.com|linkprotect\.cudasvc\.com)$/;

/** `html`: as received. Never throws: HTML that cannot be read is shown as text, without links. */
export function deceptiveLinks(html: string, budget: Budget = createHtmlBudget()): DeceptiveLink[] {
  const found = new Map<string, DeceptiveLink>();
  let link: { url: string; words: string } | undefined;
  const end = () => {
    const one = link && judge(link.url, link.words);
    if (one && found.size < MOST_TOLD) found.set(`${one.said} ${one.leadsTo}`, one);
    link = undefined;
  };
  try {
    readMarkup(visibleHtml(html, budget).html, budget, {
      open(name, { href = "" }) {
        if (name !== "a") return;
        end();
        link = { url: href.slice(0, LONGEST_URL).trim(), words: "" };
      },
      close(name) {
        if (name === "a") end();
      },
      text(text) {
        if (link && link.words.length < LONGEST_WORDS) link.words += text.slice(0, LONGEST_WORDS);
      },
      pass() {},
    });
    end();
  } catch {
    return [];
  }
  return [...found.values()];
}

function judge(url: string, words: string): DeceptiveLink | undefined {
  const target = /^https?:/i.test(url) && URL.canParse(url) ? readHost(new URL(url).hostname) : undefined;
  if (target === undefined) return undefined;
  if (mayBeLookalikeHost(target)) return { leadsTo: target };
  if (CHECKERS.test(target)) return undefined;
  const said = hostsNamed(words).find((host) => registrableDomain(host) !== registrableDomain(target));
  return said === undefined ? undefined : { said, leadsTo: target };
}

const UNSEEN = /[\p{Cf}\p{Default_Ignorable_Code_Point}]+/gu;
const AROUND_START = /^[^\p{L}\p{N}]+/u;
const EXPLICIT = /^(?:https?:\/\/|www\.)/i;
const ALONE = /^[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+(?::\d{1,5})?(?:[/?#].*)?$/u;

/** The hosts that the words of a link name, in A-labels. */
function hostsNamed(words: string): string[] {
  const tokens = words
    .slice(0, LONGEST_WORDS)
    .normalize("NFKC")
    .replace(UNSEEN, "")
    .split(/\s+/)
    .map((token) => token.replace(AROUND_START, ""))
    .filter((token) => token !== "");
  const [only, another] = tokens;
  if (only !== undefined && another === undefined && !EXPLICIT.test(only)) {
    const host = ALONE.test(only) ? hostIn(`http://${only}`) : undefined;
    return host !== undefined && isHostName(host) ? [host] : [];
  }
  return tokens.flatMap((token) => {
    if (!EXPLICIT.test(token)) return [];
    return hostIn(/^www\./i.test(token) ? `http://${token}` : token) ?? [];
  });
}

/** The host that a reader sees in a URL: in `https://bank.example@evil.example` the first one. */
function hostIn(written: string): string | undefined {
  const text = written.replace(/(?<![…"'<>)\]},.;:!?])[…"'<>)\]},.;:!?]+$/u, "");
  if (!URL.canParse(text)) return undefined;
  const { username, hostname } = new URL(text);
  const host = readHost(username.includes(".") ? decodeURIComponentSafely(username) : hostname);
  return host?.includes(".") ? host : undefined;
}

function decodeURIComponentSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
