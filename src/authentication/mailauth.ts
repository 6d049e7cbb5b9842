/**
 * The door to mailauth: what signs (dkim.ts) and what checks mail (evidence.ts, dmarc.ts). It takes some tenths of a
 * second to load, so only the workers do, when there is something to sign or to check. Everything is checked as strictly as
 * the standards have it; all DNS questions go through the resolver that is handed in.
 */

export type { ARCChainEntry, DMARCResult, DNSResolver } from "mailauth";
export { arc } from "mailauth/lib/arc/index.js";
export { dkimBody } from "mailauth/lib/dkim/body/index.js";
export { DkimVerifier, type ParsedHeaders } from "mailauth/lib/dkim/dkim-verifier.js";
export { generateCanonicalizedHeader } from "mailauth/lib/dkim/header/index.js";
export { createRecordLookup, getOrgDomain } from "mailauth/lib/dmarc/get-dmarc-record.js";
export { evaluateDmarc } from "mailauth/lib/dmarc/index.js";
export { spf } from "mailauth/lib/spf/index.js";
export type { HeaderLine } from "mailauth/lib/tools.js";
export { formatSignatureHeaderLine, getSigningHeaderLines, parseHeaders } from "mailauth/lib/tools.js";
