/**
 * DMARC (RFC 9989): whether SPF or DKIM passes for a domain aligned with From, and else the policy of the From domain. Finds
 * organisational domains by walking the tree; reads `pct` as in RFC 7489 §6.3. Writes the Authentication-Results field.
 *
 * Invariants: the verdict is `fail` only when every identifier that could align was checked; when DNS fails, it is
 * `temperror`. A message with several From fields never passes, and neither does one with several From domains if any of them
 * publishes a policy. The domain of an author is the one that readers are shown (address.ts), never one that looks like it.
 */
import { type Authors, readDomain, splitAddress } from "../message/address.ts";
import type { AuthVerdicts } from "../store/schema.ts";
import type { Arrival, Check, Evidence, Verdict } from "./evidence.ts";
import { createRecordLookup, type DMARCResult, type DNSResolver, evaluateDmarc, getOrgDomain } from "./mailauth.ts";

export type Policy = "none" | "quarantine" | "reject";

/** The result of authenticating a message; can be cloned to another thread. */
export interface Authentication {
  verdicts: AuthVerdicts;
  /** The policy of the author's domain, after `sp`, `np` and `t`; none unless the message fails. */
  policy: Policy;
  /** The percentage of such messages that the policy is for; the next weaker applies to the others (RFC 7489 §6.6.4). */
  percent: number;
  /** Value of the Authentication-Results field, unfolded. */
  results: string;
  /** Organisational domains of the senders (organizationsOf); looked up only for reports. */
  organizations?: readonly string[];
}

/** The DMARC result of one From domain. */
interface Judgement {
  verdict: Verdict;
  policy: Policy;
  percent: number;
  info: string;
}

/** Most From domains of a message. Honest mail never has more; with more, none is checked. */
const MOST_AUTHORS = 4;

const STRENGTH: Record<Policy, number> = { none: 0, quarantine: 1, reject: 2 };

/**
 * `shown`: the authors as our parser reads them. The authors that mailauth reads in the same header are checked as well, since
 * parsers may differ. A disguised domain makes any message spam (rules: DMARC).
 */
export async function judge(
  evidence: Evidence,
  shown: Authors,
  { hostname }: Arrival,
  ask: DNSResolver,
): Promise<Authentication> {
  const found = evidence.authors.map(readAuthor);
  const disguised = shown.disguised || found.some((one) => one.disguised);
  const authors = [...found.map(({ email }) => email), ...shown.emails];
  const judgement = await judgeAuthors(evidence, authors, ask);
  const { vouched } = evidence.forwarding ?? {};
  const isVouched =
    judgement.policy !== "none" &&
    !disguised &&
    vouched !== undefined &&
    (vouched.author === undefined || authors.every((author) => author.toLowerCase().endsWith(`@${vouched.author}`)));
  const rows = [
    evidence.spf.info,
    ...evidence.signatures.map(({ info }) => info),
    ...(evidence.forwarding ? [evidence.forwarding.info] : []),
    // RFC 9989 §5.4 lets us accept mail that fails; the verdict does not change.
    isVouched
      ? judgement.info.replace(/^dmarc=\w+/, `$& reason="forwarded by ${vouched.by}, which saw it pass"`)
      : judgement.info,
  ];
  return {
    verdicts: {
      spf: evidence.spf.verdict,
      dkim: summaryOf(evidence.signatures),
      dmarc: judgement.verdict,
    },
    ...(disguised && judgement.policy !== "reject"
      ? { policy: "quarantine", percent: 100 }
      : { policy: isVouched ? "none" : judgement.policy, percent: judgement.percent }),
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not get into a header field
    results: [hostname, ...rows].join("; ").replace(/[\u0000-\u001f\u007f]+/g, " "),
  };
}

/** An address of mailauth, in the form that readers are shown. */
function readAuthor(address: string): { email: string; disguised: boolean } {
  const { local, domain: written } = splitAddress(address);
  if (written === "") return { email: address, disguised: false };
  const { domain, disguised } = readDomain(written);
  return { email: `${local}@${domain}`, disguised };
}

/**
 * The organisational domains (RFC 9989 §4.10.2) of the identities for which SPF or DKIM passes. They and the domains below
 * them are known to have sent the message. When DNS fails, an identity stands only for itself. Names are compared as written,
 * so a name that is not in A-labels matches nothing.
 */
export async function organizationsOf({ spf, signatures }: Evidence, ask: DNSResolver): Promise<string[]> {
  const passed = [spf, ...signatures].flatMap(({ verdict, domain }) =>
    verdict === "pass" && domain !== undefined && /^[!-~]+$/.test(domain)
      ? domain.toLowerCase().replace(/\.$/, "")
      : [],
  );
  const lookup = createRecordLookup(ask, { strict: true });
  const organizations = [...new Set(passed)].map((domain) => getOrgDomain(domain, lookup).catch(() => domain));
  return [...new Set(await Promise.all(organizations))];
}

/** Of several signatures one that holds is enough (RFC 6376 §6.1). */
function summaryOf(signatures: readonly Check[]): Verdict {
  const order: readonly Verdict[] = ["pass", "temperror", "fail", "permerror", "neutral"];
  return order.find((verdict) => signatures.some((one) => one.verdict === verdict)) ?? "none";
}

async function judgeAuthors(evidence: Evidence, headerFrom: string[], ask: DNSResolver): Promise<Judgement> {
  // With several fields, the signed one may differ from the one that a reader sees (RFC 9989 §5.3.1).
  const checks = evidence.fromFields > 1 ? [] : [evidence.spf, ...evidence.signatures];
  const evaluate = (author: string[]) => evaluateAuthor(author, checks, ask);
  const { judgement, authorDomains = [] } = await evaluate(headerFrom);
  if (judgement !== undefined) return judgement;
  // RFC 8601 §2.7.2 (RFC 7489 §11.2): none also where there is no domain to ask.
  const nothing = { policy: "none", percent: 100 } as const;
  if (authorDomains.length === 0) return { ...nothing, verdict: "none", info: "dmarc=none (no From domain)" };
  const several = { ...nothing, verdict: "permerror", info: "dmarc=permerror (several From domains)" } as const;
  if (authorDomains.length > MOST_AUTHORS) return { ...several, policy: "quarantine" };
  const all = await Promise.all(authorDomains.map((domain) => evaluate([`author@${domain}`])));
  const each = all.flatMap((one) => one.judgement ?? []);
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

/** `authorDomains` where the addresses do not have exactly one. */
async function evaluateAuthor(
  headerFrom: string[],
  checks: readonly Check[],
  ask: DNSResolver,
): Promise<{ judgement?: Judgement; authorDomains?: string[] | undefined }> {
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
  const policy = verdict === "fail" ? policyOf(response) : "none";
  return { judgement: { verdict, policy, percent: percentOf(response.rr), info } };
}

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

const policyOf = ({ policy }: DMARCResult): Policy =>
  policy === "reject" || policy === "quarantine" ? policy : "none";

/** RFC 7489 §6.3 `pct`: all of them unless it says how many. */
function percentOf(record: string | undefined): number {
  const given = /;\s*pct\s*=\s*(\d{1,3})\s*(?:;|$)/i.exec(record ?? "")?.[1];
  return given === undefined ? 100 : Math.min(Number(given), 100);
}
