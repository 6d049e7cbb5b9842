import type { MailCore } from "../mailbox/core.ts";
import type { ParserPool } from "./parser-pool.ts";

/** What work on mail that arrives takes: parsers are processes. */
export interface ParsingCore extends MailCore {
  readonly parser: ParserPool;
}
