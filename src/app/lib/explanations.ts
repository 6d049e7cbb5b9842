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
  if (BROKEN.has(verdict)) return "We couldn’t check this: the domain’s records could not be read.";
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
        pass: `${domain} confirms this sender address.`,
        fail: `${domain} does not confirm this sender address: it may be forged.`,
        none: `${domain} has not published how to tell its mail from forgeries.`,
      }),
    },
    {
      name: "SPF",
      verdict: spf,
      meaning: meaningOf(spf, {
        pass: "The return address’s domain allows the sending server.",
        fail: "The sending server is not one that the return address’s domain allows.",
        none: "The return address’s domain does not list its sending servers.",
      }),
    },
    {
      name: "DKIM",
      verdict: dkim,
      meaning: meaningOf(dkim, {
        pass: "It is signed, and was not changed in transit.",
        fail: "Its signature does not match: it was changed in transit, or is forged.",
        none: "It has no signature.",
      }),
    },
  ];
  if (dmarc === "pass") return { tone: "good", short: `Verified: this came from ${domain}.`, checks };
  if (dmarc === "fail") {
    return {
      tone: "bad",
      short: `${domain} does not confirm that it sent this. Be careful with links and attachments.`,
      checks,
    };
  }
  return { tone: "unknown", short: `We couldn’t verify this came from ${domain}.`, checks };
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
    if (filedFor === "sender") return `Mail from ${from} was marked as spam in this mailbox before.`;
    if (filedFor === "arrival")
      return `${from.split("@").at(-1)} says it did not send this and asks us to treat it as spam.`;
    if (filedFor === "junk") {
      return `It looks like mail that was marked as spam in this mailbox${score === null ? "" : ` (score ${Math.round(score * 100)} of 100)`}.`;
    }
    if (trained === "spam") return "Someone who uses this mailbox marked it as spam.";
    return "It was moved here, or is part of a conversation in spam.";
  };
  const words = (kept: typeof clues) => [...new Set(kept.map(({ token }) => clueOf(token)))];
  return {
    because: because(),
    spam: words(clues.filter(({ probability }) => probability > 0.5)),
    wanted: words(clues.filter(({ probability }) => probability < 0.5)),
  };
}
