/**
 * Prepares messages in workers: parsing, composing, sanitising, authentication, attachments and signatures never stall the
 * event loop, and a message that a parser hangs on or dies of costs that message its parsing and no other message anything
 * but time. Answers what the workers ask DNS.
 *
 * Work that a person or a program waits for has a lane of its own beside that of mail that arrives. A lane has its line
 * (fair-line.ts), its shared workers, and one worker more where what may be costly runs, one message at a time: a message
 * that a shared worker was silent over or died with, what else came from its source meanwhile, and what comes from sources
 * of which a message was costly lately. Workers start when there is work for them; those of arriving mail stay, the others
 * end when they have been idle.
 *
 * Invariants: a message is blamed only when it was alone. A worker that hangs or dies with several messages is replaced,
 * and the one it was busy with runs by itself. Arriving mail never takes a worker that sending may need: an idle worker of
 * its lane may be lent to sending, never the other way round. A message that waits for DNS waits no longer than its stages
 * may take, and takes no other message's place meanwhile. No message waits for a worker without end.
 */

import type { SigningKey } from "../authentication/dkim.ts";
import type { Authentication } from "../authentication/dmarc.ts";
import type { Arrival } from "../authentication/evidence.ts";
import { unavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { isLetter, type Letter } from "../message/letter.ts";
import { type Read, type ReadHtml, type Reading, sizeOfReading } from "../message/reading.ts";
import { type Answer, answerWithin, type DnsCache, type RecordType } from "../net/dns-cache.ts";
import { canonicalAddress, sourceOfAddress } from "../net/ip.ts";
import type { Source } from "../smtp/spool.ts";
import { asUnavailable } from "../store/store.ts";
import { createLine, createUsage, type Line } from "./fair-line.ts";

/** How an outbound message is signed; without keys it is not. */
export interface Signing {
  keys: readonly SigningKey[];
  /** Epoch ms. */
  signedAt: number;
}

/** What a worker is asked for: to read HTML that is stored, or to prepare a message. */
export type Job = { blobFolder: string } & (MessageJob | { reading: Reading });

/** To prepare a message, composing it first when it is a letter. */
interface MessageJob {
  source: Source | Letter;
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
  /** Of HTML. */
  read?: Read;
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

/** Whose work it is, and who waits for it. */
export interface Work {
  /**
   * `interactive`: a person or a program waits, who has signed in: what is sent, drafts, what is shown to a reader.
   * `arriving`: mail of other servers. `bulk`: what nobody waits for, and which waits as long as it takes.
   */
  kind: "interactive" | "arriving" | "bulk";
  /** Who is to be charged with the time it takes: the id of a mailbox or a workspace, or where it comes from. */
  source: string;
}

export interface ParserPool {
  /**
   * Prepares a message for filing. `size`: bytes, of one in a file.
   * @throws UnparseableError when it cannot be; AppError server_error 503 when the store is full, too much waits, or the
   * pool stopped
   */
  prepare(work: Work, source: Source | Letter, size?: number): Promise<PreparedMessage>;
  /** The same, as bulk, for a message that was kept elsewhere: neither what it may report nor what tells junk is looked for. */
  prepareKept(source: Source): Promise<PreparedMessage>;
  /** The same for a message that arrives, charged to its peer, authenticated, which its topmost header field says. */
  prepareInbound(source: Source, size: number, arrival: Arrival): Promise<PreparedInbound>;
  /** Who sent a message that cannot be prepared, and is shown as from that address; "" for nobody. @throws as prepare */
  authenticate(source: Source, size: number, arrival: Arrival, shownFrom: string): Promise<Authentication>;
  /**
   * The same as `prepare` for a message that is being sent, interactive, with what to transmit. `account`: the source.
   * @throws also what dkim.ts says of a bad key
   */
  prepareOutbound(account: string, source: Uint8Array | Letter, signing: Signing): Promise<PreparedOutbound>;
  /** Reads stored HTML for somebody, interactive. @throws UnparseableError when it cannot be; as prepare */
  read: ReadHtml;
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
  /** Most shared workers of arriving mail. */
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

/** How long a worker may be silent over one message that is alone, and what its size adds to that. */
const DEADLINE_MS = 10_000;
/** For honest messages: ten megabytes take half a second, on a machine of 2026 that has nothing else to do. */
const MS_PER_BYTE = 1 / 10_000;
/** How long a shared worker may be silent before what it has in hand is taken aside: so long one message holds up others. */
const SHARED_MS = 2_000;
/** Of it, for what the worker said while the main thread was busy, and has not been heard. */
const UNHEARD_MS = 100;
/** To load what a worker needs. */
const START_MS = 60_000;
/** After which a worker ends that was started for sending, or for what is costly: some 30 MB are free again. */
const IDLE_MS = 60_000;
/** For a worker, unless it is for bulk. SMTP clients would wait longer (RFC 5321 §4.5.3.2.6), people would not. */
const WAIT_MS = 60_000;
/** Of a lane. As many messages as there are connections. */
const MOST_WAITING = { most: 1_000, mostBytes: 256 * 1024 * 1024 };
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

const TOO_BUSY = "Too much mail waits to be processed; try again";
/** Why a shared worker is replaced that may only be slow: nobody is blamed for it. */
const HELD_UP = "held up others";

interface Task {
  readonly id: number;
  readonly job: Job;
  readonly lane: Lane;
  readonly bulk: boolean;
  readonly source: string;
  readonly size: number;
  /** Epoch ms, since when it waits for a worker. */
  readonly since: number;
  /** A worker was silent over it or died with it, perhaps because of it: it runs by itself. */
  suspect: boolean;
  /** Ms of a worker. */
  took: number;
  resolve(result: Prepared): void;
  reject(error: unknown): void;
  cancelWait?: () => void;
  /** Where it was given last. */
  slot?: Slot;
  /** Epoch ms at which a stage that has begun ends. */
  readonly ends: Map<Stage, number>;
  /** Questions that it waits for. */
  questions: number;
  /** It waits for DNS, and its place is free for another. */
  parked: boolean;
}

interface Slot {
  worker: ParserWorker;
  readonly lane: Lane;
  /** One message at a time, the costly ones. */
  isolated: boolean;
  /** It has run: dying before that is not the doing of a message. */
  ran: boolean;
  inHand: Map<number, Task>;
  /** Epoch ms at which it was last heard, or had something to do again. */
  heardAt: number;
  /** Of its silence, or idleness. */
  cancelTimer?: () => void;
}

interface Lane {
  readonly mostShared: number;
  readonly line: Line<Task>;
  readonly slots: Set<Slot>;
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
  const usage = createUsage(runtime.now);
  const openLane = (mostShared: number): Lane => ({
    mostShared,
    line: createLine(usage, MOST_WAITING),
    slots: new Set(),
  });
  const interactive = openLane(1);
  const arriving = openLane(workers);
  const lanes = [interactive, arriving];
  const parked = new Set<Task>();
  /** How many suspects a source has. */
  const suspects = new Map<string, number>();
  let bytesParked = 0;
  let count = 0;
  let stopped = false;

  function open(lane: Lane, isolated: boolean): Slot {
    const worker = startWorker(script);
    worker.unref();
    const slot: Slot = { worker, lane, isolated, ran: false, inHand: new Map(), heardAt: 0 };
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
      if (!lane.slots.has(slot)) return;
      const task = "id" in data && slot.inHand.get(data.id);
      if (task) charge(slot, task);
      slot.heardAt = runtime.now();
      if ("ready" in data) {
        slot.ran = true;
        log.debug("parser worker started");
      } else if (task && "question" in data) void answer(slot, task, data.question);
      else if (task && !("question" in data)) settle(slot, task, data);
      watch(slot);
    });
    worker.addEventListener("error", (event: ErrorEvent) => {
      event.preventDefault();
      fail(slot, "crashed the parser", event.error ?? event.message);
    });
    worker.addEventListener("close", () => fail(slot, "ended the parser"));
    lane.slots.add(slot);
    return slot;
  }

  function close(slot: Slot): void {
    slot.cancelTimer?.();
    slot.lane.slots.delete(slot);
    slot.worker.terminate();
  }

  const busyIn = (slot: Slot): Task[] => [...slot.inHand.values()].filter((task) => !task.parked);

  /** A worker that was idle has something to do. */
  function begin(slot: Slot): void {
    slot.heardAt = runtime.now();
    watch(slot);
  }

  /** From when it was last heard. */
  function watch(slot: Slot): void {
    slot.cancelTimer?.();
    if (!slot.lane.slots.has(slot)) return;
    if (!slot.ran) slot.cancelTimer = runtime.setTimer(() => fail(slot, "did not start"), START_MS);
    else if (busyIn(slot).length > 0) limitSilence(slot, slot.isolated ? deadlineOf(slot) : SHARED_MS);
    else if (slot.inHand.size === 0 && (slot.isolated || slot.lane === interactive)) {
      slot.cancelTimer = runtime.setTimer(() => close(slot), IDLE_MS);
    }
  }

  function deadlineOf({ inHand }: Slot): number {
    const [only] = inHand.values();
    return DEADLINE_MS + Math.round((only?.size ?? 0) * MS_PER_BYTE);
  }

  function limitSilence(slot: Slot, ms: number): void {
    slot.cancelTimer = runtime.setTimer(() => {
      slot.cancelTimer = runtime.setTimer(() => silent(slot), UNHEARD_MS);
    }, ms - UNHEARD_MS);
  }

  function silent(slot: Slot): void {
    if (slot.isolated) {
      fail(slot, "took too long");
      return;
    }
    const [only] = slot.inHand.values();
    const isolated = isolatedIn(slot.lane);
    if (!only || slot.inHand.size > 1 || (isolated && isolated.inHand.size > 0)) {
      fail(slot, HELD_UP);
      return;
    }
    // What would be taken aside goes on where it is, and others have a worker of their own.
    if (isolated) close(isolated);
    slot.isolated = true;
    suspect(only);
    limitSilence(slot, deadlineOf(slot) - SHARED_MS);
    dispatch();
  }

  /** What a worker speaks of is what it was busy with since it spoke before: it has one thread, and takes them in turn. */
  function charge(slot: Slot, task: Task): void {
    const ms = Math.max(0, runtime.now() - slot.heardAt);
    task.took += ms;
    usage.charge(task.source, ms);
  }

  function suspect(task: Task): void {
    if (task.suspect) return;
    task.suspect = true;
    suspects.set(task.source, (suspects.get(task.source) ?? 0) + 1);
  }

  /** It is through, or gave up. */
  function finish(task: Task): void {
    task.cancelWait?.();
    if (!task.suspect) return;
    const left = (suspects.get(task.source) ?? 0) - 1;
    if (left > 0) suspects.set(task.source, left);
    else suspects.delete(task.source);
  }

  function run(task: Task, slot: Slot): void {
    task.lane.line.leave(task);
    task.cancelWait?.();
    const idle = busyIn(slot).length === 0;
    slot.inHand.set(task.id, task);
    task.slot = slot;
    // Where nothing else keeps the process, as in a command, Bun would turn its event loop without a pause meanwhile.
    slot.worker.ref();
    if (idle) begin(slot);
    slot.worker.postMessage({ ...task.job, id: task.id } satisfies ToWorker);
  }

  async function answer(slot: Slot, task: Task, { number, name, type, stage }: Question): Promise<void> {
    let answer = names.ask(name, type);
    if (answer instanceof Promise) {
      task.questions++;
      park(task);
      const ends = task.ends.get(stage) ?? runtime.now() + STAGE_MS;
      task.ends.set(stage, ends);
      answer = await answerWithin(answer, ends - runtime.now(), runtime);
      if (--task.questions === 0) unpark(task);
    }
    if (slot.lane.slots.has(slot)) slot.worker.postMessage({ number, answer: await answer } satisfies ToWorker);
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
    const { slot } = task;
    const idle = slot && busyIn(slot).length === 0;
    task.parked = false;
    bytesParked -= task.size;
    if (idle) begin(slot);
  }

  function settle(
    slot: Slot,
    task: Task,
    reply: Extract<FromWorker, { result: unknown } | { failure: unknown }>,
  ): void {
    unpark(task);
    slot.inHand.delete(task.id);
    if (slot.inHand.size === 0) slot.worker.unref();
    usage.took(task.source, task.took - task.size * MS_PER_BYTE);
    finish(task);
    if ("result" in reply) task.resolve(reply.result);
    else task.reject(failureOf(reply.failure));
    dispatch();
  }

  /**
   * A worker hung or died. One message alone is blamed; of several, the one it was most likely busy with is set aside, and
   * the others wait again, with nobody's suspicion. So each time there is one less that could be the reason.
   */
  function fail(slot: Slot, reason: string, error?: unknown): void {
    if (!slot.lane.slots.has(slot)) return;
    close(slot);
    const inHand = [...slot.inHand.values()];
    const waitingForDns = new Set(inHand.filter((task) => task.parked));
    for (const task of inHand) unpark(task);
    if (!slot.ran) {
      log.error("parser worker did not start", { error });
      for (const task of [...inHand, ...slot.lane.line.leaveAll()]) giveUp(task, "The parser does not start", error);
      return;
    }
    log.warn("parser worker replaced", { reason, inHand: inHand.length, error });
    // A worker takes them in turn.
    const likeliest = inHand.find((task) => !waitingForDns.has(task)) ?? inHand[0];
    if (likeliest) charge(slot, likeliest);
    if (likeliest && inHand.length === 1 && reason !== HELD_UP) {
      usage.took(likeliest.source, likeliest.took - likeliest.size * MS_PER_BYTE);
      finish(likeliest);
      likeliest.reject(new UnparseableError(`The message ${reason}`));
    } else {
      if (likeliest) suspect(likeliest);
      for (const task of inHand) wait(task);
    }
    dispatch();
  }

  function wait(task: Task): void {
    task.took = 0;
    if (!task.bulk) {
      task.cancelWait = runtime.setTimer(() => {
        task.lane.line.leave(task);
        giveUp(task, TOO_BUSY);
      }, WAIT_MS);
    }
    for (const last of task.lane.line.join(task)) giveUp(last, TOO_BUSY);
  }

  function giveUp(task: Task, why: string, error?: unknown): void {
    finish(task);
    task.reject(unavailable(why, error));
  }

  const isolatedIn = (lane: Lane): Slot | undefined => [...lane.slots].find((slot) => slot.isolated);
  const sharedIn = (lane: Lane): Slot[] => [...lane.slots].filter((slot) => !slot.isolated);
  /** Bulk has one source, and somebody who wants it done: only its messages are. */
  const mayBeCostly = ({ suspect, bulk, source }: Task): boolean =>
    suspect || (!bulk && (suspects.has(source) || usage.isCostly(source)));

  /** The shared worker that should take a task, if any can. */
  function sharedFor({ lane, size }: Task): Slot | undefined {
    let best: Slot | undefined;
    let fewest = mostInHand;
    const shared = sharedIn(lane);
    for (const slot of shared) {
      const busyWith = busyIn(slot);
      if (busyWith.length >= fewest || [...slot.inHand.values()].some((task) => task.lane !== lane)) continue;
      const bytes = busyWith.reduce((sum, task) => sum + task.size, size);
      if (busyWith.length > 0 && bytes > MOST_BYTES_IN_HAND) continue;
      best = slot;
      fewest = busyWith.length;
    }
    if (fewest === 0) return best;
    const lent = lane === interactive ? idleOfArriving() : undefined;
    return lent ?? (shared.length < lane.mostShared ? open(lane, false) : best);
  }

  /** A worker that arriving mail does not need now. */
  function idleOfArriving(): Slot | undefined {
    if (arriving.line.length > 0) return undefined;
    const shared = sharedIn(arriving);
    const idle = shared.find((slot) => slot.inHand.size === 0);
    return idle ?? (shared.length < arriving.mostShared ? open(arriving, false) : undefined);
  }

  function dispatch(): void {
    if (stopped) return;
    for (const lane of lanes) {
      const costly = lane.line.length > 0 && lane.line.first(mayBeCostly);
      if (costly) {
        const slot = isolatedIn(lane) ?? open(lane, true);
        if (slot.inHand.size === 0) run(costly, slot);
      }
      for (;;) {
        const task = lane.line.length > 0 && lane.line.first((task) => !mayBeCostly(task));
        const slot = task && sharedFor(task);
        if (!slot) break;
        run(task, slot);
      }
    }
  }

  function add({ kind, source }: Work, job: MessageJob | { reading: Reading }, size: number): Promise<Prepared> {
    if (stopped) return Promise.reject(unavailable("The service is stopping"));
    return new Promise<Prepared>((resolve, reject) => {
      const lane = kind === "interactive" ? interactive : arriving;
      const task = { id: ++count, job: { ...job, blobFolder }, lane, bulk: kind === "bulk", source, size };
      const fresh = { since: runtime.now(), suspect: false, took: 0, questions: 0, parked: false };
      wait({ ...task, ...fresh, ends: new Map(), resolve, reject });
      dispatch();
    });
  }

  return {
    prepare: async (work, source, size = sizeOf(source)) => given(await add(work, { source }, size), "message").message,
    read: async <R extends Reading>(source: string, reading: R) =>
      given(await add({ kind: "interactive", source }, { reading }, sizeOfReading(reading)), "read").read as Read<R>,
    prepareKept: async (source) =>
      given(await add(BULK, { source, keptElsewhere: true }, sizeOf(source)), "message").message,
    prepareInbound: async (source, size, arrival) =>
      given(await add(arrivingFrom(arrival), { source, arrival }, size), "message", "authentication"),
    authenticate: async (source, size, arrival, shownFrom) =>
      given(await add(arrivingFrom(arrival), { source, arrival, shownFrom }, size), "authentication").authentication,
    prepareOutbound: async (account, source, signing) =>
      given(
        await add({ kind: "interactive", source: account }, { source, signing }, sizeOf(source)),
        "message",
        "content",
      ),
    stop() {
      stopped = true;
      const slots = lanes.flatMap((lane) => [...lane.slots]);
      for (const slot of slots) close(slot);
      const inHand = slots.flatMap((slot) => [...slot.inHand.values()]);
      for (const task of [...lanes.flatMap(({ line }) => line.leaveAll()), ...inHand]) {
        finish(task);
        task.reject(unavailable("The service is stopping"));
      }
    },
  };
}

const BULK: Work = { kind: "bulk", source: "kept elsewhere" };
const arrivingFrom = ({ ip }: Arrival): Work => ({ kind: "arriving", source: sourceOfAddress(canonicalAddress(ip)) });

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
