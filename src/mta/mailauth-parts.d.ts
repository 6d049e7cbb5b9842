/** The parts of mailauth that it has no types for. */
declare module "mailauth/lib/dkim/dkim-signer.js" {
  import type { Writable } from "node:stream";
  import type { DKIMSignError, DKIMSignOptions } from "mailauth";

  export interface HeaderLine {
    /** Name of the field, in lower case and as it is written. */
    key: string;
    casedKey: string;
    line: Buffer;
  }

  /** Takes in a message; once it has ended, `signatureHeaders` has a field a key, without the line break at its end. */
  export class DkimSigner extends Writable {
    constructor(options: {
      signatureData: DKIMSignOptions[];
      headerList?: string[];
      signTime?: Date;
      strict?: boolean;
    });
    readonly signatureHeaders: string[];
    readonly errors: DKIMSignError[];
    /** Called with the header, from the top, before anything is signed. */
    protected messageHeaders(headers: { parsed: HeaderLine[] }): Promise<void>;
  }
}

declare module "mailauth/lib/dkim/dkim-verifier.js" {
  import type { Writable } from "node:stream";
  import type { ARCData, DKIMResult, DNSResolver } from "mailauth";
  import type { HeaderLine } from "mailauth/lib/dkim/dkim-signer.js";

  export interface ParsedHeaders {
    parsed: HeaderLine[];
  }

  /** Takes in a message; once it has ended, `results` has an entry a signature, or one of "none". */
  export class DkimVerifier extends Writable {
    constructor(options: { resolver: DNSResolver; minBitLength?: number; strict?: boolean; curTime?: Date });
    readonly results: (DKIMResult & { info: string })[];
    /** The addresses of every From field. */
    readonly headerFrom: string[];
    readonly fromFields: number;
    readonly arc: ARCData;
    /** What is checked once the body has been read. */
    protected signatureHeaders: { type: "DKIM" | "ARC" }[];
    /** Called with the header, from the top. */
    protected messageHeaders(headers: ParsedHeaders): Promise<void>;
  }
}
