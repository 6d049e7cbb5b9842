/**
 * The only file that imports mailauth, which signs mail (dkim.ts) and checks it (evidence.ts, dmarc.ts). Loading it
 * takes some tenths of a second, so only parsers load it. Every caller asks for strict checks, and hands in the
 * resolver for all DNS questions.
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
