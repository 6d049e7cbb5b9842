/** The parts of mailauth that it has no types for. */
declare module "mailauth/lib/tools.js" {
  export interface HeaderLine {
    /** Name of the field, in lower case and as it is written. */
    key: string;
    casedKey: string;
    line: Buffer;
  }

  /** The header fields that a signature covers, and their names as in h=. */
  export interface SigningHeaderLines {
    keys: string;
    headers: HeaderLine[];
  }

  /** Tags of a signature, by their names. */
  export type SignatureTags = Record<string, string | number>;

  /** Parses the fields of a header, from the top. */
  export function parseHeaders(header: Buffer): { parsed: HeaderLine[] };
  /** Lists every field of these names, from the bottom. Colons separate `fieldNames`. */
  export function getSigningHeaderLines(fields: HeaderLine[], fieldNames: string): SigningHeaderLines;
  /** Writes the field, without the line break at its end. */
  export function formatSignatureHeaderLine(type: "DKIM", tags: SignatureTags, folded: boolean): string;
}

declare module "mailauth/lib/dkim/body/index.js" {
  /** Returns a hash that canonicalises the body as it reads it. */
  export function dkimBody(
    canonicalization: "relaxed",
    algorithm: "sha256",
  ): { update(chunk: Buffer): void; digest(encoding: "base64"): string };
}

declare module "mailauth/lib/dkim/header/index.js" {
  import type { SignatureTags, SigningHeaderLines } from "mailauth/lib/tools.js";

  /** Returns the bytes to sign, and the tags of the field that holds the signature as `b`. */
  export function generateCanonicalizedHeader(
    type: "DKIM",
    covered: SigningHeaderLines,
    options: {
      signingDomain: string;
      selector: string;
      algorithm: string;
      canonicalization: "relaxed/relaxed";
      /** Base64. */
      bodyHash: string;
      /** Unix seconds; `expiration` false for none. */
      timestamp: number;
      expiration: number | false;
    },
  ): { canonicalizedHeader: Buffer; dkimHeaderOpts: SignatureTags };
}

declare module "mailauth/lib/dkim/dkim-verifier.js" {
  import type { Writable } from "node:stream";
  import type { ARCData, DKIMResult, DNSResolver } from "mailauth";
  import type { HeaderLine } from "mailauth/lib/tools.js";

  export interface ParsedHeaders {
    parsed: HeaderLine[];
  }

  /** Reads a message; once it has ended, `results` has an entry for each signature, or one of "none". */
  export class DkimVerifier extends Writable {
    constructor(options: { resolver: DNSResolver; minBitLength?: number; strict?: boolean; curTime?: Date });
    readonly results: (DKIMResult & { info: string })[];
    /** The addresses of every From field. */
    readonly headerFrom: string[];
    readonly fromFields: number;
    readonly arc: ARCData;
    /** The signatures to check once the body has been read. */
    protected signatureHeaders: { type: "DKIM" | "ARC" }[];
    /** Parses the header; all that is written after it is the body. */
    protected emitHeaders(header: Uint8Array): Promise<void>;
    /** Checks the signatures once the body has been read. A stream calls it at its end. */
    protected finish(): Promise<void>;
    /** Called with the header, from the top. */
    protected messageHeaders(headers: ParsedHeaders): Promise<void>;
  }
}

declare module "mailauth/lib/dmarc/get-dmarc-record.js" {
  import type { DNSResolver } from "mailauth";

  /** Asks for DMARC records, for each name once. */
  type RecordLookup = (name: string) => Promise<unknown>;
  export function createRecordLookup(resolver: DNSResolver, options: { strict: boolean }): RecordLookup;
  /** Finds the organisational domain (RFC 9989 §4.10.2). Rejects when DNS fails. `domain`: lower case, A-labels. */
  export function getOrgDomain(domain: string, lookup: RecordLookup): Promise<string>;
}
