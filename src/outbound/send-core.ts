import type { ParsingCore } from "../workers/parsing-core.ts";
import type { Transport } from "./transport.ts";

/** Parts of the server that sending needs. */
export interface SendCore extends ParsingCore {
  readonly transport: Transport;
  /** Most waiting recipients that the queue accepts. */
  readonly largestQueue: number;
}
