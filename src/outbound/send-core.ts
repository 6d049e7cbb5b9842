import type { ParsingCore } from "../workers/parsing-core.ts";
import type { Transport } from "./transport.ts";

/** What sending takes. */
export interface SendCore extends ParsingCore {
  readonly transport: Transport;
  /** Most waiting recipients that the queue accepts. */
  readonly largestQueue: number;
}
