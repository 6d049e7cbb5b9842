import type { Spool } from "../smtp/spool.ts";
import type { ParsingCore } from "../workers/core.ts";
import type { Transport } from "./transport.ts";

/** What sending takes. */
export interface SendCore extends ParsingCore {
  readonly transport: Transport;
  readonly spool: Spool;
  /** Most waiting recipients that the queue accepts. */
  readonly largestQueue: number;
}
