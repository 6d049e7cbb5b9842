/**
 * A worker of parser-pool.ts: composes messages, prepares them for filing, writes their attachments durably, authenticates
 * what arrives and signs what is sent, off the main thread. Knows no database, and asks the main thread what it has to ask
 * DNS. An entry of its own in the single executable.
 */
import { type PreparedMessage, prepareMessage } from "../mailbox/prepare.ts";
import { systemRuntime } from "../runtime.ts";
import { type Blobs, openBlobs } from "../store/blobs.ts";
import type { Arrival } from "./authenticate.ts";
import type { Authentication } from "./dmarc.ts";
import type { Answer, RecordType } from "./dns-cache.ts";
import { composeLetter, isLetter } from "./letter.ts";
import type { DNSResolver } from "./mailauth.ts";
import type { FromWorker, Job, Prepared, Signing, Stage, ToWorker } from "./parser-pool.ts";
import { readSource } from "./spool.ts";

declare const self: Worker;

const runtime = systemRuntime();

/** What is kept from one job to the next of the same appliance. */
interface Kept {
  blobFolder: string;
  blobs: Blobs;
  /** What DNS has said, as long as it holds: mail of one time asks much the same, and asking costs both threads. */
  said: Map<string, Answer>;
}
const MOST_SAID = 500;
let kept: Kept | undefined;

function keptFor(blobFolder: string): Kept {
  if (kept?.blobFolder !== blobFolder) {
    kept = { blobFolder, blobs: openBlobs(blobFolder, runtime), said: new Map() };
  }
  return kept;
}

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

async function prepare(
  id: number,
  { source, blobFolder, arrival, shownFrom, signing, keptElsewhere }: Job,
): Promise<Prepared> {
  const { blobs, said } = keptFor(blobFolder);
  const bytes = isLetter(source) ? await composeLetter(source, blobs.read) : await readSource(source);
  if (arrival && shownFrom !== undefined) {
    const shown = async () => ({ from: { email: shownFrom } });
    return { authentication: (await authenticate(id, said, bytes, arrival, shown)).authentication };
  }
  if (arrival) {
    const prepared = await authenticate(id, said, bytes, arrival, () => prepareMessage(bytes, blobs));
    // What we say of a message goes on top of its header (RFC 8601 §4.1).
    prepared.message.headers.unshift(["Authentication-Results", prepared.authentication.results]);
    return prepared;
  }
  const content = signing && joined(await signaturesOf(bytes, signing), bytes);
  const written = signing !== undefined || keptElsewhere === true || isLetter(source);
  return { message: await prepareMessage(bytes, blobs, { written }), ...(content && { content }) };
}

/** Loads what authenticates with the first message that arrives. `read` gives the message, while DNS is asked. */
async function authenticate<M extends Pick<PreparedMessage, "from">>(
  id: number,
  said: Kept["said"],
  bytes: Uint8Array,
  arrival: Arrival,
  read: () => Promise<M>,
): Promise<{ message: M; authentication: Authentication }> {
  const { gatherEvidence } = await import("./authenticate.ts");
  const { judge } = await import("./dmarc.ts");
  const ask = (stage: Stage) => resolver(id, said, stage, arrival.now);
  const [evidence, message] = await Promise.all([gatherEvidence(bytes, arrival, ask("evidence")), read()]);
  return { message, authentication: await judge(evidence, message.from?.email, arrival, ask("policy")) };
}

/** Asks the main thread what is not known at `now`, each question once a message. Rejects as node:dns does. */
function resolver(id: number, said: Kept["said"], stage: Stage, now: number): DNSResolver {
  const known = new Map<string, Promise<string[]>>();
  const askMain = async (key: string, name: string, type: RecordType): Promise<Answer> => {
    const number = ++questions;
    const answered = new Promise<Answer>((resolve) => asked.set(number, resolve));
    self.postMessage({ id, question: { number, name, type, stage } } satisfies FromWorker);
    const answer = await answered;
    said.delete(key);
    if (answer.until > now) said.set(key, answer);
    for (const oldest of said.keys()) {
      if (said.size <= MOST_SAID) break;
      said.delete(oldest);
    }
    return answer;
  };
  const ask = async (key: string, name: string, type: string): Promise<string[]> => {
    const before = said.get(key);
    const answer = before && before.until > now ? before : await askMain(key, name, type as RecordType);
    // mailauth takes any records, and has a type for some.
    if ("records" in answer) return answer.records as string[];
    throw Object.assign(new Error(`${type} of ${name}: ${answer.code}`), { code: answer.code });
  };
  return (name, type) => {
    const key = `${type} ${name}`;
    const first = known.get(key) ?? ask(key, name, type);
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
