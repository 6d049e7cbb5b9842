/**
 * A worker of parser-pool.ts: composes messages, prepares them for filing, writes their attachments durably and signs
 * what is sent, off the main thread. Knows no database. An entry of its own in the single executable.
 */
import { prepareMessage } from "../mailbox/prepare.ts";
import { systemRuntime } from "../runtime.ts";
import { openBlobs } from "../store/blobs.ts";
import { composeLetter, isLetter } from "./letter.ts";
import type { FromWorker, Job, Prepared, Signing, ToWorker } from "./parser-pool.ts";
import { readSource } from "./spool.ts";

declare const self: Worker;

const runtime = systemRuntime();
let blobs: ReturnType<typeof openBlobs> | undefined;

async function answer({ id, ...job }: ToWorker): Promise<void> {
  let reply: FromWorker;
  try {
    reply = { id, result: await prepare(job) };
  } catch (error) {
    const { message, stack, code } = error as NodeJS.ErrnoException;
    reply = { id, failure: { message, stack, code } };
  }
  self.postMessage(reply, "result" in reply && reply.result.content ? [reply.result.content.buffer] : []);
}

async function prepare({ source, blobFolder, signing }: Job): Promise<Prepared> {
  blobs ??= openBlobs(blobFolder, runtime);
  const bytes = isLetter(source) ? await composeLetter(source) : await readSource(source);
  const content = signing && joined(await signaturesOf(bytes, signing), bytes);
  return { message: await prepareMessage(bytes, blobs), ...(content && { content }) };
}

/** In memory of its own, which can be handed over. */
function joined(text: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const head = Buffer.from(text, "latin1");
  const whole = new Uint8Array(head.byteLength + bytes.byteLength);
  whole.set(head);
  whole.set(bytes, head.byteLength);
  return whole;
}

/** Loads what signs with the first message that is signed. */
async function signaturesOf(bytes: Uint8Array, { keys, signedAt }: Signing): Promise<string> {
  if (keys.length === 0) return "";
  const dkim = await import("./dkim.ts");
  return dkim.sign(bytes, keys, signedAt);
}

self.onmessage = (event: MessageEvent<ToWorker>) => {
  void answer(event.data);
};
self.postMessage({ ready: true } satisfies FromWorker);
