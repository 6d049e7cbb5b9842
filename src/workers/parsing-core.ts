import type { MailCore } from "../mailbox/state/mail-core.ts";
import type { Spool } from "../smtp/spool.ts";
import type { ParserPool } from "./parser-pool.ts";

/** Parts of the server that work on mail that arrives or is sent needs: parsers are processes, and large bytes go by file. */
export interface ParsingCore extends MailCore {
  readonly parser: ParserPool;
  readonly spool: Spool;
}
