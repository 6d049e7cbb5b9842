/** Explains in plain words the verdicts of SPF, DKIM and DMARC on a message, and what its reader is warned of. Pure. */
import type { Answer } from "./api-client.ts";
import type { MessageView, MessageWarning } from "./mail-views.ts";

type Auth = NonNullable<MessageView["auth"]>;

export interface Explained {
  tone: "good" | "bad" | "unknown";
  /** The explanation in one sentence. */
  short: string;
  checks: { name: string; verdict: string; meaning: string }[];
}

const FAILED = new Set(["fail", "softfail"]);
const BROKEN = new Set(["temperror", "permerror"]);

function explainVerdict(verdict: string, { pass, fail, none }: { pass: string; fail: string; none: string }): string {
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
      meaning: explainVerdict(dmarc, {
        pass: `${domain} confirms this sender address.`,
        fail: `${domain} does not confirm this sender address: it may be forged.`,
        none: `${domain} has not published how to tell its mail from forgeries.`,
      }),
    },
    {
      name: "SPF",
      verdict: spf,
      meaning: explainVerdict(spf, {
        pass: "The return address’s domain allows the sending server.",
        fail: "The sending server is not one that the return address’s domain allows.",
        none: "The return address’s domain does not list its sending servers.",
      }),
    },
    {
      name: "DKIM",
      verdict: dkim,
      meaning: explainVerdict(dkim, {
        pass: "It is signed, and was not changed in transit.",
        fail: "Its signature does not match: it was changed in transit, or is forged.",
        none: "It has no signature.",
      }),
    },
  ];
  if (dmarc === "pass") return { tone: "good", short: `Sent by ${domain}`, checks };
  if (dmarc === "fail") {
    return {
      tone: "bad",
      short: `${domain} does not confirm that it sent this. Be careful with links and attachments.`,
      checks,
    };
  }
  return { tone: "unknown", short: `We couldn’t verify this came from ${domain}.`, checks };
}

/** A sentence that says what is wrong, and what to do. `email`: the author that the message shows. */
export function explainWarning(warning: MessageWarning, email: string): string {
  switch (warning.kind) {
    case "link":
      return `A link says ${warning.said}, but leads to ${warning.leadsTo}. Do not sign in or pay there.`;
    case "lookalike":
      return `${warning.host} is written in letters that look like others. It may pose as another site.`;
    case "replyTo":
      return `Your answer would go to ${warning.address}, not to ${email}.`;
    case "name":
      return `${email} is not a known address of ${warning.name} in your workspace. If in doubt, ask them another way.`;
  }
}

/** Warns admins of a domain that the workspace has not verified or has lost; undefined for a verified one. */
export function domainWarning({ name, state, takesMail }: Answer<"getDomain">): string | undefined {
  if (state === "verified") return undefined;
  if (state === "lost") {
    return `Another workspace verified ${name}: no mail comes to your addresses there, and none can be sent from them. The mail in their mailboxes can still be read.`;
  }
  return takesMail
    ? `${name} takes mail without being verified, as before, until another workspace verifies it. Publish its records, then verify it.`
    : `Until ${name} is verified no mail comes to its addresses, and none can be sent from them. Publish its records, then verify it.`;
}
