/** The parser worker, with messages that it hangs on or dies of when it is to parse them, or whatever it is to do. */
import "../../src/workers/parser-worker.ts";
import type { ToWorker } from "../../src/workers/jobs.ts";
import { obeyPoison } from "./poison.ts";

declare const self: Worker;

const handle = self.onmessage;
self.onmessage = (event: MessageEvent<ToWorker>) => {
  const source = "source" in event.data ? event.data.source : undefined;
  const text = source instanceof Uint8Array ? Buffer.from(source).toString("latin1") : "";
  const isParsed = "source" in event.data && event.data.shownFrom === undefined;
  if (isParsed || text.includes("X-Poison: throw")) obeyPoison(text);
  if (text.includes("X-Poison: always")) process.exit(3);
  handle?.call(self, event);
};
