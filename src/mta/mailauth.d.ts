/** The part of mailauth that it has no types for. */
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
