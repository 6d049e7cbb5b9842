/**
 * A worker of parser-pool.ts: composes messages, prepares them for filing, writes their attachments durably, authenticates
 * what arrives and signs what is sent, off the main thread. Knows no database, and asks the main thread what it has to ask
 * DNS. An entry of its own in the single executable.
 */
import { prepareMessage } from "../mailbox/prepare.ts";
import { systemRuntime } from "../runtime.ts";
import { openBlobs } from "../store/blobs.ts";
import type { Arrival } from "./authenticate.ts";
import type { Authentication } from "./dmarc.ts";
import type { Answer, RecordType } from "./dns-cache.ts";
import { composeLetter, isLetter } from "./letter.ts";
import type { DNSResolver } from "./mailauth.ts";
import type { FromWorker, Job, Prepared, Signing, Stage, ToWorker } from "./parser-pool.ts";
import { readSource } from "./spool.ts";

declare const self: Worker;

const runtime = systemRuntime();
let blobs: ReturnType<typeof openBlobs> | undefined;

/** Questions on their way, by number. */
const asked = new Map<number, (answer: Answer) => void>();
let questions = 0;

async function answer({ id, ...job }: Job & { id: number }): Promise<void> {
  let reply: FromWorker;
  try {
    reply = { id, result: await prepare(id, job) };
  } catch (error) {
    const { message, stack, code } = error as NodeJS.ErrnoException;
    reply = { id, failure: { message, stack, code } };
  }
  self.postMessage(reply, "result" in reply && reply.result.content ? [reply.result.content.buffer] : []);
}

async function prepare(id: number, { source, blobFolder, arrival, signing }: Job): Promise<Prepared> {
  blobs ??= openBlobs(blobFolder, runtime);
  const bytes = isLetter(source) ? await composeLetter(source) : await readSource(source);
  if (arrival) return await prepareInbound(id, bytes, arrival, blobs);
  const content = signing && joined(await signaturesOf(bytes, signing), bytes);
  return { message: await prepareMessage(bytes, blobs), ...(content && { content }) };
}

/** While DNS is asked, the message is parsed. What we say of it goes on top of its header (RFC 8601 §4.1). */
async function prepareInbound(
  id: number,
  bytes: Uint8Array,
  arrival: Arrival,
  attachments: ReturnType<typeof openBlobs>,
): Promise<Prepared> {
  const { gatherEvidence } = await import("./authenticate.ts");
  const { judge } = await import("./dmarc.ts");
  const [evidence, message] = await Promise.all([
    gatherEvidence(bytes, arrival, resolver(id, "evidence")),
    prepareMessage(bytes, attachments),
  ]);
  const authentication: Authentication = await judge(evidence, message.from?.email, arrival, resolver(id, "policy"));
  message.headers.unshift(["Authentication-Results", authentication.results]);
  return { message, authentication };
}

/** Asks the main thread, each question once a message. Rejects as node:dns does. */
function resolver(id: number, stage: Stage): DNSResolver {
  const known = new Map<string, Promise<string[]>>();
  const ask = async (name: string, type: string): Promise<string[]> => {
    const number = ++questions;
    const answered = new Promise<Answer>((resolve) => asked.set(number, resolve));
    self.postMessage({ id, question: { number, name, type: type as RecordType, stage } } satisfies FromWorker);
    const answer = await answered;
    // mailauth takes any records, and has a type for some.
    if ("records" in answer) return answer.records as string[];
    throw Object.assign(new Error(`${type} of ${name}: ${answer.code}`), { code: answer.code });
  };
  return (name, type) => {
    const key = `${type} ${name}`;
    const first = known.get(key) ?? ask(name, type);
    known.set(key, first);
    return first;
  };
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
  if ("answer" in event.data) {
    asked.get(event.data.number)?.(event.data.answer);
    asked.delete(event.data.number);
  } else void answer(event.data);
};
self.postMessage({ ready: true } satisfies FromWorker);
