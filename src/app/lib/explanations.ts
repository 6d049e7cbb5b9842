/** Explains in plain words the verdicts of SPF, DKIM and DMARC on a message, and why a message is in spam. Pure. */
import type { Classification, MessageView } from "./api.ts";

type Auth = NonNullable<MessageView["auth"]>;

export interface Explained {
  tone: "good" | "bad" | "unknown";
  /** One sentence. */
  short: string;
  checks: { name: string; verdict: string; meaning: string }[];
}

const FAILED = new Set(["fail", "softfail"]);
const BROKEN = new Set(["temperror", "permerror"]);

function meaningOf(verdict: string, { pass, fail, none }: { pass: string; fail: string; none: string }): string {
  if (verdict === "pass") return pass;
  if (FAILED.has(verdict)) return fail;
  if (BROKEN.has(verdict)) return "It could not be checked: the domain’s records could not be read.";
  return none;
}

/** `email`: the author that the message shows. */
export function explainAuth({ spf, dkim, dmarc }: Auth, email: string): Explained {
  const domain = email.split("@").at(-1) ?? email;
  const checks = [
    {
      name: "DMARC",
      verdict: dmarc,
      meaning: meaningOf(dmarc, {
        pass: `${domain} confirms that the address shown is its own.`,
        fail: `${domain} does not confirm it: the address shown may be made up.`,
        none: `${domain} does not say how its mail can be told from forgeries.`,
      }),
    },
    {
      name: "SPF",
      verdict: spf,
      meaning: meaningOf(spf, {
        pass: "The server that handed it in may send for the domain of the return address.",
        fail: "The server that handed it in is not one that the domain of the return address names.",
        none: "The domain of the return address does not say which servers send for it.",
      }),
    },
    {
      name: "DKIM",
      verdict: dkim,
      meaning: meaningOf(dkim, {
        pass: "It is signed, and was not changed on its way.",
        fail: "Its signature does not fit: it was changed on its way, or is forged.",
        none: "It carries no signature.",
      }),
    },
  ];
  if (dmarc === "pass") return { tone: "good", short: `It comes from ${domain}: the domain confirms it.`, checks };
  if (dmarc === "fail") {
    return {
      tone: "bad",
      short: `${domain} does not confirm that it sent this: be careful with what it asks for.`,
      checks,
    };
  }
  return { tone: "unknown", short: `It could not be checked whether ${domain} sent this.`, checks };
}

const TRAITS: Record<string, string> = {
  html: "it is written in HTML",
  "html:form": "a form in it",
  "html:frame": "a page embedded in it",
  "html:script": "a program in it",
  "html:hidden": "hidden text",
  "html:white": "white text",
  "html:pixel": "an invisible image",
  "html:image": "images from elsewhere",
  "html:huge": "huge letters",
  "link:address": "a link to a bare address",
  "link:@": "a disguised link",
  "subject:gap": "a gap in the subject",
};

const KINDS: Record<string, (rest: string) => string> = {
  subject: (word) => `“${word}” in the subject`,
  from: (address) => (address.startsWith("@") ? `mail from ${address.slice(1)}` : `mail from ${address}`),
  spoofed: (address) => `mail that wrongly shows ${address.replace(/^@/, "")}`,
  link: (host) => `a link to ${host}`,
  file: (type) => `an attachment of the kind ${type}`,
  header: (name) => `the header field ${name}`,
  without: (name) => `no header field ${name}`,
  spf: (verdict) => `SPF: ${verdict}`,
  dkim: (verdict) => `DKIM: ${verdict}`,
  dmarc: (verdict) => `DMARC: ${verdict}`,
  length: () => "its length",
};

/** Describes a token of the junk filter. A token without a colon is a word. */
function clueOf(token: string): string {
  const [, kind = "", rest = ""] = /^([^:]+):(.*)$/.exec(token) ?? [];
  return TRAITS[token] ?? KINDS[kind]?.(rest) ?? (kind === "" ? `“${token}”` : `${kind}: ${rest}`);
}

export interface Reasons {
  /** One sentence. */
  because: string;
  /** Signs of spam and of wanted mail, the strongest first. */
  spam: string[];
  wanted: string[];
}

/** `from`: the author that the message shows. */
export function whySpam({ filedFor, score, clues, trained }: Classification, from: string): Reasons {
  const because = () => {
    if (filedFor === "sender") return `Mail of ${from} was marked as spam in this mailbox before.`;
    if (filedFor === "arrival")
      return `The domain of ${from} does not confirm that it sent this, and asks that such mail be treated as spam.`;
    if (filedFor === "junk") {
      return `It resembles mail that was marked as spam in this mailbox${score === null ? "" : `: ${Math.round(score * 100)} of 100`}.`;
    }
    if (trained === "spam") return "Somebody who reads this mailbox marked it as spam.";
    return "It was moved here, or belongs to a conversation in spam.";
  };
  const words = (kept: typeof clues) => [...new Set(kept.map(({ token }) => clueOf(token)))];
  return {
    because: because(),
    spam: words(clues.filter(({ probability }) => probability > 0.5)),
    wanted: words(clues.filter(({ probability }) => probability < 0.5)),
  };
}
