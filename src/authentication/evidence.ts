/**
 * Gathers evidence of the sender of a message: SPF of its envelope (RFC 7208), its DKIM signatures (RFC 6376, RFC 8301,
 * RFC 8463), and the chain of trusted forwarders (RFC 8617). Runs in a parser; dmarc.ts concludes from it.
 *
 *   envelope ─► SPF ────────────┐
 *   bytes ─► DKIM ─► ARC chain ─┴► Evidence ─► judge (dmarc.ts) ─► Authentication ─► inbound/data.ts decides
 *
 * Invariants: a resolver that does not answer leads to `temperror`, and to no other verdict. Every message costs a
 * bounded number of DNS questions and of passes over its body.
 */
import { finished } from "node:stream/promises";
import { authorsIn } from "../message/address.ts";
import { listHeaders, readHeaders } from "../message/headers.ts";
import { hasTooManyLines } from "../message/structure.ts";
import { isDnsAbsence } from "../net/dns-cache.ts";
import {
  type ARCChainEntry,
  arc,
  DkimVerifier,
  type DNSResolver,
  type HeaderLine,
  type ParsedHeaders,
  spf,
} from "./mailauth.ts";

/** The SMTP session that a message came in, as far as it is known, and our settings for it. */
export interface SmtpContext {
  ip: string;
  helo: string;
  /** Empty for a bounce. */
  reversePath: string;
  /** Our host name: the authserv-id of our results (RFC 8601 §2.5). */
  hostname: string;
  /** Domains that we trust, with the domains below them, to report results of mail that they forward. */
  trustedForwarders: readonly string[];
  /** Epoch ms. */
  now: number;
  tls?: boolean;
  /** Trace id of the session, as in our log. */
  trace?: string;
  /** The address in RCPT TO, if it was the only one: recipients must not learn of each other. */
  recipient?: string | undefined;
}

/** The results of RFC 8601 §2.7 that an API client sees (rules: Message fields). */
export type Verdict = "pass" | "fail" | "softfail" | "neutral" | "none" | "temperror" | "permerror";

/** An identifier that was checked. `info`: its part of Authentication-Results. */
export interface Check {
  verdict: Verdict;
  /** The domain that it authenticates; absent when none could be read. */
  domain?: string | undefined;
  info: string;
}

export interface Evidence {
  spf: Check;
  /** At least one: a message without signatures has one of verdict none. */
  signatures: Check[];
  /** The domain of a signature that holds and covers both fields of RFC 8058, which occur once each. */
  listSigner?: string;
  /** The addresses of all From fields. */
  authors: string[];
  /** How many From fields there are; RFC 5322 §3.6 allows one. */
  fromFields: number;
  /** Absent where no trusted forwarder has sealed the message. */
  forwarding?: Forwarding;
}

/** The result of a trusted chain of forwarders. */
interface Forwarding {
  info: string;
  /**
   * The forwarder that saw the message pass DMARC, and the From domain for which it did, if the forwarder names that.
   */
  vouched?: { by: string; author: string | undefined };
}

/** Most signatures that are checked: honest mail has three or four. */
const MOST_SIGNATURES = 10;
/** Most signatures with `l=`: each takes its own pass over the body. */
const MOST_PARTIAL = 2;
const PARTIAL = /[:;]\s*l\s*=/i;

/**
 * Largest header that is checked: the cost of parsing grows faster than its size. Honest headers have a tenth of it.
 */
const MOST_HEADER_LINES = 4_000;
const MOST_HEADER_BYTES = 256 * 1024;

/** SPF results for a client that no mechanism of the domain's record names. */
const NO_MATCH: ReadonlySet<string> = new Set(["fail", "softfail", "neutral"]);

const SIGNED = /^(?:dkim|arc)-/im;

/*
 * Bounds of one field, in bytes. mailauth trims fields by an expression whose work grows with the square of the white space in a
 * row. Honest signatures have at most 4 kB, and the longest honest field is a list of recipients.
 */
const LONGEST_SIGNATURE = 16 * 1024;
const LONGEST_FIELD = 128 * 1024;
const LONGEST_BLANK = 256;
const SIGNATURE = /^(?:dkim-signature|arc-(?:seal|message-signature|authentication-results))\s*:/i;

/** RFC 8058 §4: a signature has to cover them for one click to unsubscribe. */
const LIST_FIELDS = ["list-unsubscribe", "list-unsubscribe-post"];

/** Checks all identifiers. Never rejects. `ask` rejects with the codes of dns-cache.ts. */
export async function gatherAuthenticationEvidence(
  message: Uint8Array,
  smtpContext: SmtpContext,
  ask: DNSResolver,
): Promise<Evidence> {
  const [checked, rest] = await Promise.all([
    evaluateSpf(smtpContext, ask),
    checkSignatures(message, smtpContext, ask),
  ]);
  return { spf: checked, ...rest };
}

/** The evidence that envelope and header give of a message whose signatures cannot be checked. Never rejects. */
export async function gatherHeaderEvidence(
  message: Uint8Array,
  smtpContext: SmtpContext,
  ask: DNSResolver,
): Promise<Evidence> {
  return { spf: await evaluateSpf(smtpContext, ask), ...uncheckable(message, "message cannot be checked") };
}

/** Checks SPF of MAIL FROM, or of HELO for a bounce (RFC 7208 §2.4). Never rejects. `ask` as for gatherAuthenticationEvidence. */
export async function evaluateSpf(
  { ip, helo, reversePath, hostname }: Pick<SmtpContext, "ip" | "helo" | "reversePath" | "hostname">,
  ask: DNSResolver,
): Promise<Check> {
  let isUnknown = false;
  const noted: DNSResolver = async (name, type) => {
    try {
      return await ask(name, type);
    } catch (error) {
      // The SPF check accounts for failures at TXT itself, and an explanation ("exp") changes nothing.
      isUnknown ||= type !== "TXT" && !isDnsAbsence((error as NodeJS.ErrnoException).code ?? "");
      throw error;
    }
  };
  const sender = { sender: reversePath, ip, helo, mta: hostname };
  const { status, domain, info } = await spf({ ...sender, resolver: noted, strict: true });
  // The comment repeats the sender's words, which some readers of the field could take for ours.
  const shown = info.replace(/ \((?:[^()\\]|\\.)*\)/, "");
  // The mechanism "ptr" takes a failure of DNS for no match (RFC 7208 §5.5). To us the result is unknown then.
  if (isUnknown && NO_MATCH.has(status.result)) {
    return { verdict: "temperror", domain, info: shown.replace(/^spf=\w+/, "spf=temperror") };
  }
  return { verdict: status.result as Verdict, domain, info: shown };
}

class BoundedVerifier extends DkimVerifier {
  /** Reads a message. The header comes as a whole, because mailauth's search for its end takes a step for each byte. */
  async read(header: Uint8Array, body: Uint8Array | undefined): Promise<void> {
    await this.emitHeaders(header);
    if (body === undefined) return this.finish();
    this.end(body);
    await finished(this);
  }

  /** True if each of the fields of LIST_FIELDS occurs once: a signature covers the lower ones of several. */
  hasListFields = false;

  /** Tells, once the header is read, if the ARC chain comes from a trusted forwarder. Other chains are not checked. */
  isTrusted: (chain: readonly ARCChainEntry[]) => boolean = () => false;

  protected override async messageHeaders(headers: ParsedHeaders): Promise<void> {
    this.hasListFields = LIST_FIELDS.every((name) => headers.parsed.filter(({ key }) => key === name).length === 1);
    let [signatures, partial] = [0, 0];
    const isChecked = ({ key, line }: HeaderLine): boolean =>
      key !== "dkim-signature" ||
      (++signatures <= MOST_SIGNATURES && (!PARTIAL.test(line.toString("latin1")) || ++partial <= MOST_PARTIAL));
    await super.messageHeaders({ ...headers, parsed: headers.parsed.filter(isChecked) });
    if (!this.isTrusted(this.arc.chain || [])) {
      this.signatureHeaders = this.signatureHeaders.filter(({ type }) => type === "DKIM");
    }
  }
}

type Content = Omit<Evidence, "spf">;

async function checkSignatures(message: Uint8Array, smtpContext: SmtpContext, ask: DNSResolver): Promise<Content> {
  const failed = (why: string): Content => uncheckable(message, why);
  const header = findMessageHeader(message);
  const bounded = header && boundedHeader(header);
  if (header === undefined || bounded === undefined) return failed("header is too large to check");
  // mailauth goes through a body line by line.
  const isSigned = SIGNED.test(Buffer.from(header).toString("latin1"));
  if (isSigned && hasTooManyLines(message)) return failed("message has too many lines to check");
  const verifier = new BoundedVerifier({ resolver: ask, strict: true, curTime: new Date(smtpContext.now) });
  const { trustedForwarders } = smtpContext;
  const isTrusted = (domain: string | undefined): domain is string =>
    domain !== undefined && trustedForwarders.some((name) => domain === name || domain.endsWith(`.${name}`));
  verifier.isTrusted = (chain) => isTrusted(arcSealDomain(chain.at(-1)));
  try {
    // A message without signatures is checked by its header alone.
    await verifier.read(bounded.header, isSigned ? message.subarray(header.byteLength) : undefined);
  } catch {
    // Without a signature that is known to hold, DMARC can fail: mail that breaks the verifier must not get around it.
    return failed("message cannot be checked");
  }
  const { headerFrom, fromFields, results } = verifier;
  const signatures = results.map(({ status, signingDomain, info }): Check => {
    // RFC 6376 §8.2: others may add to such a body. RFC 8601 §2.7.1 has `policy` for signatures that we do not accept.
    if (status.result === "pass" && status.underSized !== undefined) {
      return { verdict: "neutral", domain: signingDomain, info: info.replace("dkim=pass", "dkim=policy") };
    }
    const verdict = status.result === "policy" ? "permerror" : (status.result as Verdict);
    return { verdict, domain: signingDomain, info };
  });
  for (let left = bounded.signaturesLeftOut; left > 0; left--) {
    signatures.push({ verdict: "permerror", info: "dkim=permerror (signature is too long to check)" });
  }
  const listSigner = verifier.hasListFields
    ? results.find((_, n) => signatures[n]?.verdict === "pass" && coversList(results[n]?.signingHeaders?.headers ?? []))
    : undefined;
  const forwarding = trustedForwarders.length === 0 ? undefined : await checkForwarding(verifier, isTrusted, ask);
  return {
    signatures,
    authors: headerFrom,
    fromFields,
    ...(listSigner?.signingDomain && { listSigner: listSigner.signingDomain.toLowerCase() }),
    ...(forwarding && { forwarding }),
  };
}

/** `signed`: the fields that a signature covers, as lines. */
const coversList = (signed: readonly string[]): boolean =>
  LIST_FIELDS.every((name) => signed.some((line) => line.slice(0, line.indexOf(":")).trimEnd().toLowerCase() === name));

/**
 * Checks whether the chain holds, and reads the results of its forwarders (RFC 8617 §5.2). A set below the seal of
 * another trusted forwarder counts too, since that forwarder vouches for the chain up to there.
 */
async function checkForwarding(
  { arc: data }: BoundedVerifier,
  isTrusted: (domain: string | undefined) => domain is string,
  ask: DNSResolver,
): Promise<Forwarding | undefined> {
  const chain = data.chain || [];
  if (data.error === undefined && !isTrusted(arcSealDomain(chain.at(-1)))) return undefined;
  // Read before `arc` runs, which takes the results apart.
  const sets = chain.map((set) => ({ by: arcSealDomain(set), ...sawPass(set) })).toReversed();
  const { status, info = "" } = await arc(data, { resolver: ask, strict: true });
  if (status.result !== "pass") return { info };
  for (const { by, passed, author } of sets) {
    if (!isTrusted(by)) break;
    if (passed) return { info, vouched: { by, author } };
  }
  return { info };
}

/** Reads whether the forwarder says that DMARC passed, and for which From domain, if it names one. */
function sawPass(set: ARCChainEntry): { passed: boolean; author: string | undefined } {
  const results = set["arc-authentication-results"]?.parsed as
    | { dmarc?: { value?: unknown; header?: { from?: unknown } } }
    | undefined;
  const author = results?.dmarc?.header?.from;
  return {
    passed: results?.dmarc?.value === "pass",
    author: typeof author === "string" ? author.toLowerCase() : undefined,
  };
}

function arcSealDomain(set: ARCChainEntry | undefined): string | undefined {
  const domain: unknown = set?.["arc-seal"]?.parsed?.d?.value;
  return typeof domain === "string" ? domain.toLowerCase() : undefined;
}

/** Evidence of a message that mailauth cannot check. Our own reader reads its From fields. */
function uncheckable(message: Uint8Array, why: string): Content {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  const from = listHeaders(readHeaders(bytes).fields, "from");
  return {
    signatures: [{ verdict: "permerror", info: `dkim=permerror (${why})` }],
    authors: authorsIn(from).emails,
    fromFields: Math.max(1, from.length),
  };
}

/** A header without the signatures that are over their bound; undefined if another field is over its own. */
function boundedHeader(header: Uint8Array): { header: Uint8Array; signaturesLeftOut: number } | undefined {
  const remaining: Uint8Array[] = [];
  let signaturesLeftOut = 0;
  for (const field of splitHeaderFields(header)) {
    const isSignature = SIGNATURE.test(Buffer.from(field.subarray(0, 40)).toString("latin1"));
    const isOver =
      field.byteLength > (isSignature ? LONGEST_SIGNATURE : LONGEST_FIELD) || longestBlank(field) > LONGEST_BLANK;
    if (!isOver) remaining.push(field);
    else if (isSignature) signaturesLeftOut++;
    else return undefined;
  }
  return { header: signaturesLeftOut === 0 ? header : Buffer.concat(remaining), signaturesLeftOut };
}

const isBlank = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a;

/** The fields of a header with the line breaks at their ends, and the empty line. */
function* splitHeaderFields(header: Uint8Array): Generator<Uint8Array> {
  let start = 0;
  for (let end = header.indexOf(0x0a); end >= 0; end = header.indexOf(0x0a, end + 1)) {
    const next = header[end + 1];
    if (next === 0x20 || next === 0x09) continue;
    yield header.subarray(start, end + 1);
    start = end + 1;
  }
  if (start < header.byteLength) yield header.subarray(start);
}

/** The bytes of the longest white space in a field. */
function longestBlank(field: Uint8Array): number {
  let [longest, run] = [0, 0];
  for (const byte of field) {
    run = isBlank(byte) ? run + 1 : 0;
    if (run > longest) longest = run;
  }
  return longest;
}

/** Returns the header, up to the empty line; undefined for a header that is too large. */
function findMessageHeader(message: Uint8Array): Uint8Array | undefined {
  let lineStart = 0;
  for (let lines = 0; lines < MOST_HEADER_LINES && lineStart < MOST_HEADER_BYTES; lines++) {
    const end = message.indexOf(0x0a, lineStart);
    if (end < 0) return message.byteLength <= MOST_HEADER_BYTES ? message : undefined;
    const isEmpty = end === lineStart || (end === lineStart + 1 && message[lineStart] === 0x0d);
    lineStart = end + 1;
    if (isEmpty) return message.subarray(0, lineStart);
  }
  return undefined;
}
