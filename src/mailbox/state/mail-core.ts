import type { ReadHtml } from "../../message/reading.ts";
import type { SearchEngine } from "../../search/engine.ts";
import type { Core } from "../../store/core.ts";
import type { ComposeStored } from "../reading/composers.ts";

/** What work on stored mail takes. */
export interface MailCore extends Core {
  readonly engine: SearchEngine;
  /** Reads what strangers wrote: in processes of their own on a server, in this thread for a command. */
  readonly parser: { readonly read: ReadHtml; readonly composeStored: ComposeStored };
}
