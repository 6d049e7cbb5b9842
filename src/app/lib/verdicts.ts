/** What SPF, DKIM and DMARC found of a message, in plain words. Pure. */
import type { MessageView } from "./api.ts";

type Auth = NonNullable<MessageView["auth"]>;

export interface Explained {
  tone: "good" | "bad" | "unknown";
  /** In one sentence. */
  short: string;
  /** Of each check. */
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

/** `email`: whom the message shows as its author. */
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
      short: `It could not be shown that it comes from ${domain}: be careful with what it asks for.`,
      checks,
    };
  }
  return { tone: "unknown", short: `Whether it comes from ${domain} could not be checked.`, checks };
}
