/**
 * A worker of parser-pool.ts: prepares messages for filing, and writes their attachments durably, off the main thread.
 * Knows no database. An entry of its own in the single executable.
 */
import { prepareMessage } from "../mailbox/prepare.ts";
import { systemRuntime } from "../runtime.ts";
import { openBlobs } from "../store/blobs.ts";
import type { FromWorker, ToWorker } from "./parser-pool.ts";
import { readSource } from "./spool.ts";

declare const self: Worker;

const runtime = systemRuntime();
let blobs: ReturnType<typeof openBlobs> | undefined;

async function prepare({ id, source, blobFolder }: ToWorker): Promise<void> {
  let reply: FromWorker;
  try {
    blobs ??= openBlobs(blobFolder, runtime);
    reply = { id, message: await prepareMessage(await readSource(source), blobs) };
  } catch (error) {
    const { message, stack, code } = error as NodeJS.ErrnoException;
    reply = { id, failure: { message, stack, code } };
  }
  self.postMessage(reply);
}

self.onmessage = (event: MessageEvent<ToWorker>) => {
  void prepare(event.data);
};
self.postMessage({ ready: true } satisfies FromWorker);
