/**
 * A worker of parser-pool.ts that extracts the text of documents, one at a time. Its code is not in the workers that
 * prepare mail.
 */
import { collectSoon } from "../base/memory.ts";
import { systemRuntime } from "../base/runtime.ts";
import { extractText } from "../documents/document.ts";
import { readSource } from "../smtp/spool.ts";
import type { DocumentJob, FromWorker, Prepared, ToWorker } from "./jobs.ts";

declare const self: Worker;

const runtime = systemRuntime();

// pdf.js leaves rejections of broken PDFs behind. They would end the worker, perhaps during the next document.
process.on("unhandledRejection", () => {});

async function resultOf(job: DocumentJob): Promise<Prepared> {
  if ("invitation" in job) {
    const { source, answer } = job.invitation;
    const { readInvitation } = await import("../documents/invitation.ts");
    return { invitation: readInvitation(await readSource(source), answer) ?? null };
  }
  const { source, ...hints } = job.document;
  const bytes = new Uint8Array(await readSource(source));
  return { document: (await extractText(bytes, hints, runtime.now)) ?? null };
}

async function run({ id, ...job }: DocumentJob & { id: number }): Promise<void> {
  let reply: FromWorker;
  try {
    reply = { id, result: await resultOf(job) };
  } catch (error) {
    const { message, stack, code } = error as NodeJS.ErrnoException;
    reply = { id, failure: { message, stack, code } };
  }
  self.postMessage(reply);
  collectSoon();
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (!("document" in data) && !("invitation" in data)) throw new Error("only documents are expected here");
  void run(data);
};
self.postMessage({ ready: true } satisfies FromWorker);
