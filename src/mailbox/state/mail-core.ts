import type { ReadHtml } from "../../message/reading.ts";
import type { SearchEngine } from "../../search/engine.ts";
import type { Core } from "../../store/core.ts";
import type { KeepComposed } from "../filing/keep-composed.ts";
import type { ComposeStored } from "../reading/composers.ts";
import type { Readers } from "./readers.ts";

/** Parts of the server that work on stored mail needs. */
export interface MailCore extends Core {
  readonly engine: SearchEngine;
  readonly readers: Readers;
  /** Reads what strangers wrote: in processes of their own on a server, in this thread for a command. */
  readonly parser: {
    readonly read: ReadHtml;
    readonly composeStored: ComposeStored;
    readonly keepComposed: KeepComposed;
  };
}
