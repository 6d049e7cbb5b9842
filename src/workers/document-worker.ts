/**
 * A worker of parser-pool.ts that extracts the text of documents, one at a time. Its code is not in the workers that
 * prepare mail, and it has a low priority, so that mail goes first.
 */
import { setPriority } from "node:os";
import { collectSoon } from "../base/memory.ts";
import { systemRuntime } from "../base/runtime.ts";
import { extractText } from "../documents/document.ts";
import { readSource } from "../smtp/spool.ts";
import type { DocumentJob, FromWorker, ToWorker } from "./jobs.ts";

declare const self: Worker;

const runtime = systemRuntime();

/** Niceness of this thread. */
const LOW = 5;
// On Linux, 0 is the thread that asks; elsewhere it is the process.
if (process.platform === "linux") setPriority(0, LOW);

// pdf.js leaves rejections of broken PDFs behind. They would end the worker, perhaps during the next document.
process.on("unhandledRejection", () => {});

async function run({ id, document }: DocumentJob & { id: number }): Promise<void> {
  let reply: FromWorker;
  try {
    const { source, ...hints } = document;
    const bytes = new Uint8Array(await readSource(source));
    reply = { id, result: { document: (await extractText(bytes, hints, runtime.now)) ?? null } };
  } catch (error) {
    const { message, stack, code } = error as NodeJS.ErrnoException;
    reply = { id, failure: { message, stack, code } };
  }
  self.postMessage(reply);
  collectSoon();
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (!("document" in data)) throw new Error("only documents are expected here");
  void run(data);
};
self.postMessage({ ready: true } satisfies FromWorker);
