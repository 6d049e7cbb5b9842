/**
 * DMARC (RFC 9989): finds out if SPF or DKIM passes for a domain aligned with From, and if neither does, the policy of
 * the From domain (rules: DMARC). Finds organisational domains by walking the DNS tree; reads `pct` as in RFC 7489
 * §6.3. Writes the Authentication-Results field.
 *
 * Invariants: the verdict is `fail` only when every identifier that could align was checked; when DNS fails, it is
 * `temperror`. A message with several From fields never passes. One with several From domains does not pass if any of
 * them publishes a policy. The domain of an author is the one that readers are shown (address.ts), never one that looks
 * like it.
 */
import { type Authors, readDisplayedDomain, splitAddress } from "../message/address.ts";
import type { AuthVerdicts } from "../store/schema.ts";
import type { Check, Evidence, SmtpContext, Verdict } from "./evidence.ts";
import { createRecordLookup, type DMARCResult, type DNSResolver, evaluateDmarc, getOrgDomain } from "./mailauth.ts";

export type Policy = "none" | "quarantine" | "reject";

/** The result of authenticating a message; can be cloned to another thread. */
export interface Authentication {
  verdicts: AuthVerdicts;
  /** The policy of the author's domain, after `sp`, `np` and `t`; none unless the message fails. */
  policy: Policy;
  /**
   * The percentage of failing messages that the policy is for; the next weaker policy applies to the others (RFC 7489
   * §6.6.4).
   */
  percent: number;
  /** Value of the Authentication-Results field, unfolded. */
  results: string;
  /** The domain whose signature covers both fields of RFC 8058. */
  listSigner?: string;
  /** Organisational domains of the senders (findOrganizationalDomains); looked up only for reports. */
  organizations?: readonly string[];
}

/** The DMARC result of one From domain. */
interface DmarcVerdict {
  verdict: Verdict;
  policy: Policy;
  percent: number;
  info: string;
}

/** Most From domains of a message. Honest mail never has more; with more, none is checked. */
const MOST_AUTHORS = 4;

const STRENGTH: Record<Policy, number> = { none: 0, quarantine: 1, reject: 2 };

/**
 * Concludes from the evidence. `shown`: the authors as our parser reads them. The authors that mailauth reads in the
 * same header count as well, since parsers may differ. A message with a disguised domain (readDisplayedDomain) is filed to spam
 * at least.
 */
export async function judgeAuthentication(
  evidence: Evidence,
  shown: Authors,
  { hostname }: SmtpContext,
  ask: DNSResolver,
): Promise<Authentication> {
  const found = evidence.authors.map(readAuthor);
  const disguised = shown.disguised || found.some((one) => one.disguised);
  const authors = [...found.map(({ email }) => email), ...shown.emails];
  const dmarc = await evaluateAuthors(evidence, authors, ask);
  const { vouched } = evidence.forwarding ?? {};
  const isVouched =
    dmarc.policy !== "none" &&
    !disguised &&
    vouched !== undefined &&
    (vouched.author === undefined || authors.every((author) => author.toLowerCase().endsWith(`@${vouched.author}`)));
  const rows = [
    evidence.spf.info,
    ...evidence.signatures.map(({ info }) => info),
    ...(evidence.forwarding ? [evidence.forwarding.info] : []),
    // RFC 9989 §5.4 lets us accept mail that fails; the verdict does not change.
    isVouched
      ? dmarc.info.replace(/^dmarc=\w+/, `$& reason="forwarded by ${vouched.by}, which saw it pass"`)
      : dmarc.info,
  ];
  return {
    verdicts: {
      spf: evidence.spf.verdict,
      dkim: summarizeSignatures(evidence.signatures),
      dmarc: dmarc.verdict,
    },
    ...(disguised && dmarc.policy !== "reject"
      ? { policy: "quarantine", percent: 100 }
      : { policy: isVouched ? "none" : dmarc.policy, percent: dmarc.percent }),
    ...(evidence.listSigner !== undefined && { listSigner: evidence.listSigner }),
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not get into a header field
    results: [hostname, ...rows].join("; ").replace(/[\u0000-\u001f\u007f]+/g, " "),
  };
}

/** Returns an address that mailauth read, in the form that readers are shown. */
function readAuthor(address: string): { email: string; disguised: boolean } {
  const { local, domain: written } = splitAddress(address);
  if (written === "") return { email: address, disguised: false };
  const { domain, disguised } = readDisplayedDomain(written);
  return { email: `${local}@${domain}`, disguised };
}

/**
 * Finds the organisational domains (RFC 9989 §4.10.2) of the identities for which SPF or DKIM passes. They and the
 * domains below them are known to have sent the message. When DNS fails, an identity stands only for itself. Names are
 * compared as written, so a name that is not in A-labels matches nothing.
 */
export async function findOrganizationalDomains({ spf, signatures }: Evidence, ask: DNSResolver): Promise<string[]> {
  const passed = [spf, ...signatures].flatMap(({ verdict, domain }) =>
    verdict === "pass" && domain !== undefined && /^[!-~]+$/.test(domain)
      ? domain.toLowerCase().replace(/\.$/, "")
      : [],
  );
  const lookup = createRecordLookup(ask, { strict: true });
  const organizations = [...new Set(passed)].map((domain) => getOrgDomain(domain, lookup).catch(() => domain));
  return [...new Set(await Promise.all(organizations))];
}

/** Sums up several signatures: one that holds is enough (RFC 6376 §6.1). */
function summarizeSignatures(signatures: readonly Check[]): Verdict {
  const order: readonly Verdict[] = ["pass", "temperror", "fail", "permerror", "neutral"];
  return order.find((verdict) => signatures.some((one) => one.verdict === verdict)) ?? "none";
}

async function evaluateAuthors(evidence: Evidence, headerFrom: string[], ask: DNSResolver): Promise<DmarcVerdict> {
  // With several fields, the signed one may differ from the one that a reader sees (RFC 9989 §5.3.1).
  const checks = evidence.fromFields > 1 ? [] : [evidence.spf, ...evidence.signatures];
  const evaluate = (author: string[]) => evaluateAuthor(author, checks, ask);
  const { dmarc, authorDomains = [] } = await evaluate(headerFrom);
  if (dmarc !== undefined) return dmarc;
  // RFC 8601 §2.7.2 (RFC 7489 §11.2): the result is none also where there is no domain to ask.
  const nothing = { policy: "none", percent: 100 } as const;
  if (authorDomains.length === 0) return { ...nothing, verdict: "none", info: "dmarc=none (no From domain)" };
  const several = { ...nothing, verdict: "permerror", info: "dmarc=permerror (several From domains)" } as const;
  if (authorDomains.length > MOST_AUTHORS) return { ...several, policy: "quarantine" };
  const all = await Promise.all(authorDomains.map((domain) => evaluate([`author@${domain}`])));
  const each = all.flatMap((one) => one.dmarc ?? []);
  // RFC 7489 §6.6.1: the strictest policy among those that fail.
  const [strictest] = each
    .filter(({ verdict }) => verdict === "fail")
    .toSorted((a, b) => STRENGTH[b.policy] - STRENGTH[a.policy] || b.percent - a.percent);
  if (strictest) return strictest;
  return (
    each.find(({ verdict }) => verdict === "temperror") ??
    (each.some(({ verdict }) => verdict !== "none") ? several : (each[0] ?? several))
  );
}

/**
 * Evaluates DMARC for one From domain. Where the addresses have none or several, returns those as `authorDomains`
 * instead.
 */
async function evaluateAuthor(
  headerFrom: string[],
  checks: readonly Check[],
  ask: DNSResolver,
): Promise<{ dmarc?: DmarcVerdict; authorDomains?: string[] | undefined }> {
  const { response, authorDomains } = await evaluateWith(headerFrom, checks, ["pass"], ask);
  if (!response) return { authorDomains };
  let info = response.info ?? "";
  let verdict = response.status.result as Verdict;
  if (verdict === "fail" && checks.some((check) => check.verdict === "temperror")) {
    const { response: ifTheyPassed } = await evaluateWith(headerFrom, checks, ["pass", "temperror"], ask);
    if (ifTheyPassed && ifTheyPassed.status.result !== "fail") {
      verdict = "temperror";
      info = info.replace("dmarc=fail", "dmarc=temperror");
    }
  }
  const policy = verdict === "fail" ? readDmarcPolicy(response) : "none";
  return { dmarc: { verdict, policy, percent: readDmarcPercent(response.rr), info } };
}

/** Evaluates DMARC as if the identifiers with a verdict among `counted` had passed, and no others. */
function evaluateWith(
  headerFrom: string[],
  checks: readonly Check[],
  counted: readonly Verdict[],
  resolver: DNSResolver,
): ReturnType<typeof evaluateDmarc> {
  const [spfDomains, dkimDomains] = [[] as string[], [] as { domain: string }[]];
  for (const { verdict, domain, info } of checks) {
    if (domain === undefined || !counted.includes(verdict)) continue;
    if (info.startsWith("spf=")) spfDomains.push(domain);
    else dkimDomains.push({ domain });
  }
  return evaluateDmarc({ headerFrom, fromFields: 1, spfDomains, dkimDomains, resolver, strict: true });
}

const readDmarcPolicy = ({ policy }: DMARCResult): Policy =>
  policy === "reject" || policy === "quarantine" ? policy : "none";

/** Reads `pct` (RFC 7489 §6.3); without it the policy is for all messages. */
function readDmarcPercent(record: string | undefined): number {
  const given = /;\s*pct\s*=\s*(\d{1,3})\s*(?:;|$)/i.exec(record ?? "")?.[1];
  return given === undefined ? 100 : Math.min(Number(given), 100);
}
