/**
 * Prepares messages in workers: parsing, composing, sanitising, authentication, attachments and signatures never stall the
 * event loop, and a message that a parser hangs on or dies of costs that message its parsing and no other message anything
 * but time. Answers what the workers ask DNS.
 *
 * Invariants: a message is blamed only when it was alone. A worker that hangs or dies with several messages is replaced,
 * and the replacement runs each of them by itself before it takes others. A message that waits for DNS waits no longer
 * than its stages may take, and takes no other message's place meanwhile.
 */

import { unavailable } from "../errors.ts";
import type { Log } from "../log.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import type { Runtime } from "../runtime.ts";
import { asUnavailable } from "../store/store.ts";
import type { Arrival } from "./authenticate.ts";
import type { SigningKey } from "./dkim.ts";
import type { Authentication } from "./dmarc.ts";
import { type Answer, answerWithin, type DnsCache, type RecordType } from "./dns-cache.ts";
import { isLetter, type Letter } from "./letter.ts";
import type { Source } from "./spool.ts";

/** How an outbound message is signed; without keys it is not. */
export interface Signing {
  keys: readonly SigningKey[];
  /** Epoch ms. */
  signedAt: number;
}

/** What a worker is asked for: to prepare a message, composing it first when it is a letter. */
export interface Job {
  source: Source | Letter;
  blobFolder: string;
  /** For a message that arrives, to be authenticated. */
  arrival?: Arrival;
  /** Not to be parsed, since that was tried: the address that readers are shown as its author. */
  shownFrom?: string;
  /** For a message that is sent. */
  signing?: Signing;
  /** It was kept elsewhere: what it reports, and what tells junk, is of no interest. */
  keptElsewhere?: true;
}

/** What it answers with. */
export interface Prepared {
  /** Unless it was not to be parsed. */
  message?: PreparedMessage;
  /** Of a message that arrives. */
  authentication?: Authentication;
  /** The bytes to transmit of a message that is sent: its signatures, and then the message. */
  content?: Uint8Array<ArrayBuffer>;
}
export type PreparedInbound = Required<Pick<Prepared, "message" | "authentication">>;
export type PreparedOutbound = Required<Pick<Prepared, "message" | "content">>;

/**
 * What a question is asked for. Each stage has its own time, so that a sender whose own DNS hangs cannot use up what it
 * takes to ask what the domain wants done that stands in From.
 */
export type Stage = "evidence" | "policy";

interface Question {
  /** Of this worker. */
  number: number;
  name: string;
  type: RecordType;
  stage: Stage;
}

export type ToWorker = (Job & { id: number }) | { number: number; answer: Answer };

export type FromWorker =
  | { ready: true }
  | { id: number; question: Question }
  | { id: number; result: Prepared }
  | { id: number; failure: { message: string; stack: string | undefined; code: string | undefined } };

export interface ParserPool {
  /**
   * Prepares a message for filing. `size`: bytes, of one in a file.
   * @throws UnparseableError when it cannot be; AppError server_error 503 when the store is full or the pool stopped
   */
  prepare(source: Source | Letter, size?: number): Promise<PreparedMessage>;
  /** The same for a message that was kept elsewhere: neither what it may report nor what tells junk is looked for. */
  prepareKept(source: Source): Promise<PreparedMessage>;
  /** The same for a message that arrives, authenticated, which its topmost header field says. */
  prepareInbound(source: Source, size: number, arrival: Arrival): Promise<PreparedInbound>;
  /** Who sent a message that cannot be prepared, and is shown as from that address; "" for nobody. @throws as prepare */
  authenticate(source: Source, size: number, arrival: Arrival, shownFrom: string): Promise<Authentication>;
  /** The same as `prepare` for a message that is being sent, with what to transmit. @throws also what dkim.ts says of a bad key */
  prepareOutbound(source: Uint8Array | Letter, signing: Signing): Promise<PreparedOutbound>;
  /** Ends the workers; what they had in hand rejects as unavailable. */
  stop(): void;
}

/** A message that the parser hangs on, dies of or fails at. */
export class UnparseableError extends Error {
  override readonly name = "UnparseableError";
}

export interface ParserPoolParts {
  /** Folder of the blobs. */
  blobFolder: string;
  names: DnsCache;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Most workers; they start when there is work for them. */
  workers: number;
  /** Messages that a worker has in hand at once. Default: enough to go on while the main thread commits, which hands out nothing meanwhile. */
  mostInHand?: number;
  /** The worker's script. */
  script?: string;
  /** Starts a worker on it. */
  startWorker?: StartWorker;
}

/** What the pool asks of a worker. */
export type ParserWorker = Pick<Worker, "addEventListener" | "postMessage" | "terminate"> & {
  ref(): void;
  unref(): void;
};
export type StartWorker = (script: string) => ParserWorker;

/** For one message; the slowest of honest ones take a tenth of it. */
const DEADLINE_MS = 20_000;
const MOST_IN_HAND = 8;
/** For what DNS is asked in a stage: with two of them a message is held up for ten seconds at most. */
const STAGE_MS = 5_000;
/**
 * Messages that wait for DNS, and their bytes, that do not count as in hand; further ones do, and hold up others. As many as
 * there are connections.
 */
const MOST_PARKED = 1_000;
const MOST_BYTES_PARKED = 64 * 1024 * 1024;
/** Beyond it, a message is alone in its worker, so that a few large ones do not fill the memory. */
const MOST_BYTES_IN_HAND = 4 * 1024 * 1024;

interface Task {
  readonly id: number;
  readonly job: Job;
  readonly size: number;
  resolve(result: Prepared): void;
  reject(error: unknown): void;
  cancelDeadline?: () => void;
  /** Epoch ms at which a stage that has begun ends. */
  readonly ends: Map<Stage, number>;
  /** Questions that it waits for. */
  questions: number;
  /** It waits, and its place is free for another. */
  parked: boolean;
}

interface Lane {
  worker: ParserWorker;
  /** It has run: dying before that is not the doing of a message. */
  ran: boolean;
  inHand: Map<number, Task>;
  /** Tasks that were in hand when a worker hung or died, to be run one at a time. */
  suspects: Task[];
  /** Runs suspects only, until they are through. */
  quarantine: boolean;
}

export function createParserPool({
  blobFolder,
  names,
  runtime,
  log,
  workers,
  mostInHand = MOST_IN_HAND,
  // In the single executable the worker's file lies beside the main one (entry naming [name]), hence the same address.
  script = new URL("./parser-worker.ts", import.meta.url).href,
  // Bun's; a browser's, whose types have precedence, has neither `ref` nor `unref`.
  startWorker = (script) => new Worker(script) as Worker & ParserWorker,
}: ParserPoolParts): ParserPool {
  const lanes = new Set<Lane>();
  const waiting: Task[] = [];
  const parked = new Set<Task>();
  let bytesParked = 0;
  let count = 0;
  let stopped = false;

  function openLane(suspects: Task[]): Lane {
    const worker = startWorker(script);
    worker.unref();
    const lane: Lane = { worker, ran: false, inHand: new Map(), suspects, quarantine: suspects.length > 0 };
    worker.addEventListener("message", (event: MessageEvent<FromWorker>) => {
      if ("ready" in event.data) {
        lane.ran = true;
        log.debug("parser worker started");
      } else if ("question" in event.data) {
        void answer(lane, event.data.id, event.data.question);
      } else settle(lane, event.data);
    });
    worker.addEventListener("error", (event: ErrorEvent) => {
      event.preventDefault();
      fail(lane, "crashed the parser", event.error ?? event.message);
    });
    worker.addEventListener("close", () => fail(lane, "ended the parser"));
    lanes.add(lane);
    return lane;
  }

  function run(task: Task, lane: Lane): void {
    lane.inHand.set(task.id, task);
    // Where nothing else keeps the process, as in a command, Bun would turn its event loop without a pause meanwhile.
    lane.worker.ref();
    task.cancelDeadline = runtime.setTimer(() => fail(lane, `took longer than ${DEADLINE_MS / 1000} s`), DEADLINE_MS);
    lane.worker.postMessage({ ...task.job, id: task.id } satisfies ToWorker);
  }

  async function answer(lane: Lane, id: number, { number, name, type, stage }: Question): Promise<void> {
    let answer = names.ask(name, type);
    const task = lane.inHand.get(id);
    if (answer instanceof Promise && task) {
      task.questions++;
      park(task);
      const ends = task.ends.get(stage) ?? runtime.now() + STAGE_MS;
      task.ends.set(stage, ends);
      answer = await answerWithin(answer, ends - runtime.now(), runtime);
      if (--task.questions === 0) unpark(task);
    }
    if (lanes.has(lane)) lane.worker.postMessage({ number, answer: await answer } satisfies ToWorker);
  }

  function park(task: Task): void {
    if (task.parked || parked.size >= MOST_PARKED || bytesParked + task.size > MOST_BYTES_PARKED) return;
    task.parked = true;
    parked.add(task);
    bytesParked += task.size;
    dispatch();
  }

  function unpark(task: Task): void {
    if (!parked.delete(task)) return;
    task.parked = false;
    bytesParked -= task.size;
  }

  function settle(lane: Lane, reply: Extract<FromWorker, { result: unknown } | { failure: unknown }>): void {
    const task = lane.inHand.get(reply.id);
    if (!task) return;
    lane.inHand.delete(reply.id);
    if (lane.inHand.size === 0) lane.worker.unref();
    unpark(task);
    task.cancelDeadline?.();
    if ("result" in reply) task.resolve(reply.result);
    else task.reject(failureOf(reply.failure));
    lane.quarantine &&= lane.suspects.length > 0;
    dispatch();
  }

  /** A lane hung or died: replaces it, and finds out because of which message. */
  function fail(lane: Lane, reason: string, error?: unknown): void {
    if (!lanes.delete(lane)) return;
    lane.worker.terminate();
    const inHand = [...lane.inHand.values()];
    for (const task of inHand) {
      task.cancelDeadline?.();
      unpark(task);
    }
    if (!lane.ran) {
      log.error("parser worker did not start", { error });
      const left = [...inHand, ...lane.suspects, ...waiting.splice(0)];
      for (const task of left) task.reject(unavailable("The parser does not start", error));
      return;
    }
    const [only] = inHand;
    if (only && inHand.length === 1) only.reject(new UnparseableError(`The message ${reason}`));
    const suspects = inHand.length > 1 ? [...inHand, ...lane.suspects] : lane.suspects;
    log.warn("parser worker replaced", { reason, inHand: inHand.length, suspects: suspects.length, error });
    if (suspects.length > 0) openLane(suspects);
    dispatch();
  }

  /** The lane that should take a task of that size, if any can. */
  function laneFor(size: number): Lane | undefined {
    let best: Lane | undefined;
    let fewest = mostInHand;
    for (const lane of lanes) {
      const busyWith = [...lane.inHand.values()].filter((task) => !task.parked);
      if (lane.quarantine || busyWith.length >= fewest) continue;
      const bytes = busyWith.reduce((sum, task) => sum + task.size, size);
      if (busyWith.length > 0 && bytes > MOST_BYTES_IN_HAND) continue;
      best = lane;
      fewest = busyWith.length;
    }
    if (fewest > 0 && lanes.size < workers) return openLane([]);
    return best;
  }

  function dispatch(): void {
    if (stopped) return;
    for (const lane of lanes) {
      const suspect = lane.inHand.size === 0 ? lane.suspects.shift() : undefined;
      if (suspect) run(suspect, lane);
    }
    for (let task = waiting[0]; task; task = waiting[0]) {
      const lane = laneFor(task.size);
      if (!lane) return;
      waiting.shift();
      run(task, lane);
    }
  }

  function add(job: Omit<Job, "blobFolder">, size: number): Promise<Prepared> {
    if (stopped) return Promise.reject(unavailable("The service is stopping"));
    return new Promise<Prepared>((resolve, reject) => {
      const task = { id: ++count, job: { ...job, blobFolder }, size, resolve, reject };
      waiting.push({ ...task, ends: new Map(), questions: 0, parked: false });
      dispatch();
    });
  }

  return {
    prepare: async (source, size = sizeOf(source)) => given(await add({ source }, size), "message").message,
    prepareKept: async (source) => given(await add({ source, keptElsewhere: true }, sizeOf(source)), "message").message,
    prepareInbound: async (source, size, arrival) =>
      given(await add({ source, arrival }, size), "message", "authentication"),
    authenticate: async (source, size, arrival, shownFrom) =>
      given(await add({ source, arrival, shownFrom }, size), "authentication").authentication,
    prepareOutbound: async (source, signing) =>
      given(await add({ source, signing }, sizeOf(source)), "message", "content"),
    stop() {
      stopped = true;
      const left = [...waiting.splice(0), ...[...lanes].flatMap((lane) => [...lane.inHand.values(), ...lane.suspects])];
      for (const lane of lanes) lane.worker.terminate();
      lanes.clear();
      for (const task of left) {
        task.cancelDeadline?.();
        task.reject(unavailable("The service is stopping"));
      }
    },
  };
}

/** What a worker answers with when asked for these. */
function given<K extends keyof Prepared>(prepared: Prepared, ...parts: K[]): Required<Pick<Prepared, K>> {
  const missing = parts.find((part) => prepared[part] === undefined);
  if (missing !== undefined) throw new Error(`the parser prepared a message without its ${missing}`);
  return prepared as Required<Pick<Prepared, K>>;
}

/** Bytes; of a letter about those it will have. */
function sizeOf(source: Source | Letter): number {
  if (!isLetter(source)) return source.length;
  const { text = "", html = "", quoted, files = [] } = source;
  const attached = files.reduce((sum, { size }) => sum + size, 0);
  return attached + text.length + html.length + (quoted ? quoted.text.length + (quoted.html?.length ?? 0) : 0);
}

/** What a worker said it could not do: write, which the message is not to blame for, or parse. */
function failureOf({ message, stack, code }: Extract<FromWorker, { failure: unknown }>["failure"]): unknown {
  const error = Object.assign(new Error(message), { code, stack });
  return code === undefined
    ? new UnparseableError(`The parser failed: ${message}`, { cause: error })
    : asUnavailable(error);
}
