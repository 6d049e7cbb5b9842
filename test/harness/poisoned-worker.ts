/** The parser worker, which hangs or dies at certain messages, in parsing or in every task. */
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
