/**
 * A worker of parser-pool.ts: composes messages, prepares them for filing, writes their attachments durably and signs what is
 * sent, off the main thread. Knows no database. An entry of its own in the single executable.
 */
import { prepareMessage } from "../mailbox/prepare.ts";
import { systemRuntime } from "../runtime.ts";
import { openBlobs } from "../store/blobs.ts";
import { composeLetter } from "./letter.ts";
import type { FromWorker, PreparedOutbound, PrepareJob, Signing, ToWorker } from "./parser-pool.ts";
import { readSource } from "./spool.ts";

declare const self: Worker;

const runtime = systemRuntime();
let blobs: ReturnType<typeof openBlobs> | undefined;

async function answer({ id, ...job }: ToWorker): Promise<void> {
  let reply: FromWorker;
  try {
    reply = { id, result: job.kind === "compose" ? await composeLetter(job.letter) : await prepare(job) };
  } catch (error) {
    const { message, stack, code } = error as NodeJS.ErrnoException;
    reply = { id, failure: { message, stack, code } };
  }
  self.postMessage(reply);
}

async function prepare({ source, blobFolder, signing }: PrepareJob): Promise<PreparedOutbound> {
  blobs ??= openBlobs(blobFolder, runtime);
  const bytes = await readSource(source);
  const signatures = signing === undefined || signing.keys.length === 0 ? "" : await sign(bytes, signing);
  return { message: await prepareMessage(bytes, blobs), signatures };
}

/** Loads what signs with the first message that is signed. */
async function sign(bytes: Uint8Array, { keys, signedAt }: Signing): Promise<string> {
  const dkim = await import("./dkim.ts");
  return dkim.sign(bytes, keys, signedAt);
}

self.onmessage = (event: MessageEvent<ToWorker>) => {
  void answer(event.data);
};
self.postMessage({ ready: true } satisfies FromWorker);
