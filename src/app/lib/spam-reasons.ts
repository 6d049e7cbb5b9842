/** Explains in plain words why a message is in spam. Pure. */
import type { Classification } from "./mail-views.ts";

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
function describeSpamClue(token: string): string {
  const [, kind = "", rest = ""] = /^([^:]+):(.*)$/.exec(token) ?? [];
  return TRAITS[token] ?? KINDS[kind]?.(rest) ?? (kind === "" ? `“${token}”` : `${kind}: ${rest}`);
}

export interface Reasons {
  /** The reason in one sentence. */
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
  const words = (some: typeof clues) => [...new Set(some.map(({ token }) => describeSpamClue(token)))];
  return {
    because: because(),
    spam: words(clues.filter(({ probability }) => probability > 0.5)),
    wanted: words(clues.filter(({ probability }) => probability < 0.5)),
  };
}
