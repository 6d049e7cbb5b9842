/**
 * Gives tasks to parsers and answers the parsers' DNS questions.
 *
 * Interactive work and arriving mail have separate parsers, and documents have one. Each group has a queue
 * (fair-queue.ts), shared parsers (but for documents), and one isolated parser, which runs tasks that may be costly, one at a time: a task during which a shared parser fell
 * silent or died, other tasks of its source meanwhile, and tasks of sources that recently sent a costly message.
 * Parsers start when there is work for them, and end after some idle time.
 *
 * Invariants:
 * - A message is blamed only if its parser ran nothing else. A parser that hangs or dies with several messages is
 *   replaced, and the message it was most likely busy with then runs alone. So does one whose parser the kernel killed, perhaps
 *   for the memory of others.
 * - Arriving mail never takes a parser that sending may need. An idle parser of arriving mail may be lent to sending,
 *   but not the reverse.
 * - As many large messages are prepared and filed at a time as the memory allows. One that may be costly lets the others go first.
 * - A message waits for DNS only as long as its stages allow, and its parser takes another message meanwhile.
 * - Every message waits for a parser for a limited time, except bulk work.
 */
import { type SigningKey, signHeader } from "../authentication/dkim.ts";
import { unavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { LARGE_BYTES, TIMES_ITS_SIZE } from "../base/memory.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Answer, answerWithin, type DnsCache } from "../net/dns-cache.ts";
import { asUnavailable } from "../store/store.ts";
import { createFairQueue, createSourceUsage } from "./fair-queue.ts";
import {
  type DnsQuestion,
  type JobReply,
  type Prepared,
  type Question,
  type Signature,
  UnparseableError,
} from "./jobs.ts";
import type { StartParser } from "./parser-process.ts";
import { type GroupName, MS_PER_BYTE, Slot, type Task } from "./slot.ts";

/** The kind of work and its source. */
export interface Work {
  /**
   * `interactive`: a person or program that has signed in waits for it: sending, drafts, mail to read. `arriving`: mail
   * from other servers. `bulk`: nobody waits for it, so it may wait without limit. `document`: a person or program waits
   * for its text.
   */
  kind: "interactive" | "arriving" | "bulk" | "document";
  /** Charged with the time that it takes: the id of a mailbox or workspace, or a network. */
  source: string;
  /** Charged, too: so the people of a workspace wait together while another asks. */
  workspace?: string | undefined;
  /** True if the network has not delivered wanted mail lately. */
  isStranger?: boolean;
}

/** Longest wait for a parser, except for bulk work. SMTP clients wait longer (RFC 5321 §4.5.3.2.6), people do not. */
const WAIT_MS = 60_000;
/** Limits on one queue; as many messages as there are connections. */
const MOST_WAITING = { most: 1_000, mostBytes: 256 * 1024 * 1024 };
/** Time for the DNS questions of a stage; the two stages delay a message by ten seconds at most. */
const STAGE_MS = 5_000;
/**
 * Most messages that do not count as work in hand while they wait for DNS, as many as there are connections, and their
 * bytes. Further ones count, and hold up others.
 */
const MOST_PARKED = 1_000;
const MOST_BYTES_PARKED = 64 * 1024 * 1024;
/** Most bytes that a shared parser works on at once. */
const MOST_BYTES_IN_HAND = LARGE_BYTES;

const TOO_BUSY = "Too much mail waits to be processed; try again";
/**
 * Costly messages of strangers, ms of the last minute or so, from which on other strangers wait for the isolated parser, too:
 * sources that change with each message take nothing from senders who are known.
 */
const ATTACK_MS = 15_000;
const STRANGERS = "strangers";
/** Reason to replace a shared parser that may merely be slow; no message is blamed. */
const HELD_UP = "held up others";
/** How a parser ends that the kernel kills for want of memory. */
const KILLED = /^SIGKILL\b/;

interface Group {
  readonly name: GroupName;
  readonly mostShared: number;
  readonly queue: ReturnType<typeof createFairQueue<Task>>;
  readonly slots: Set<Slot>;
  /** The last parser of the group ended before its first word. */
  hasFailedToStart: boolean;
}

export function createDispatcher({
  names,
  runtime,
  log,
  workers,
  mostInHand,
  mostLargeBytes,
  mostIsolated,
  start,
}: {
  names: DnsCache;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Most shared parsers of arriving mail. */
  workers: number;
  /** Most tasks that a parser has in hand at once. */
  mostInHand: number;
  /** Most bytes of large messages in all parsers, and being filed, at once; one alone may have more. */
  mostLargeBytes: number;
  /** Most isolated parsers at once. */
  mostIsolated: number;
  start: StartParser;
}) {
  const usage = createSourceUsage(runtime.now);
  const mostBytesParked = Math.min(MOST_BYTES_PARKED, mostLargeBytes);
  const openGroup = (name: GroupName, mostShared: number): Group => ({
    name,
    mostShared,
    queue: createFairQueue(usage, MOST_WAITING),
    slots: new Set(),
    hasFailedToStart: false,
  });
  const interactive = openGroup("interactive", 1);
  const arriving = openGroup("arriving", workers);
  const documents = openGroup("documents", 0);
  const groups = [interactive, arriving, documents];
  const getWorkerGroup = ({ group }: Task | Slot): Group => ({ interactive, arriving, documents })[group];
  const parked = new Set<Task>();
  /** Large tasks whose results are being filed. */
  const filing = new Set<Task>();
  /** Number of suspect tasks by source. */
  const suspects = new Map<string, number>();
  let bytesParked = 0;
  let count = 0;
  let stopped = false;

  function open(group: Group, isolated: boolean): Slot {
    const slot = new Slot(start, { group: group.name, isolated }, { runtime, log, events });
    group.slots.add(slot);
    return slot;
  }

  const events = {
    charged({ source, workspace }: Task, ms: number) {
      usage.charge(source, ms);
      if (workspace !== undefined) usage.charge(workspace, ms);
    },
    asked: (slot: Slot, task: Task, question: Question) => void answer(slot, task, question),
    replied(slot: Slot, task: Task, reply: JobReply) {
      getWorkerGroup(slot).hasFailedToStart = false;
      unpark(task);
      slot.release(task);
      noteCost(task);
      finish(task);
      if ("failure" in reply) task.reject(toTaskError(reply.failure));
      else {
        if (task.size > LARGE_BYTES && task.released) void keepUntil(task, task.released);
        task.resolve(reply.result);
      }
      dispatch();
    },
    failed: fail,
    heldUp(slot: Slot) {
      const [only] = slot.inHand.values();
      const isolated = isolatedIn(getWorkerGroup(slot));
      if (!only || slot.inHand.size > 1 || (isolated && isolated.inHand.size > 0)) {
        fail(slot, HELD_UP);
        return;
      }
      // The task continues where it is, and its parser becomes the isolated one.
      isolated?.close();
      slot.isolated = true;
      suspect(only);
      dispatch();
    },
    gone(slot: Slot) {
      getWorkerGroup(slot).slots.delete(slot);
      dispatch();
    },
  };

  async function answer(slot: Slot, task: Task, question: Question): Promise<void> {
    let found: Answer | Signature | Promise<Answer | Signature> =
      "signer" in question ? signatureFor(task, question) : nameFor(task, question);
    if (found instanceof Promise) {
      task.questions++;
      park(task);
      found = await found;
      if (--task.questions === 0) unpark(task);
    }
    slot.tell(question.number, found);
  }

  /** The answer of DNS to a question, within the time of the question's stage. */
  function nameFor(task: Task, { name, type, stage }: DnsQuestion): Answer | Promise<Answer> {
    const found = names.ask(name, type);
    if (!(found instanceof Promise)) return found;
    const ends = task.ends.get(stage) ?? runtime.now() + STAGE_MS;
    task.ends.set(stage, ends);
    return answerWithin(found, ends - runtime.now(), runtime);
  }

  function park(task: Task): void {
    if (task.parked || parked.size >= MOST_PARKED || bytesParked + task.size > mostBytesParked) return;
    task.parked = true;
    parked.add(task);
    bytesParked += task.size;
    dispatch();
  }

  function unpark(task: Task): void {
    if (!parked.delete(task)) return;
    const { slot } = task;
    const wasIdle = slot?.isIdle;
    task.parked = false;
    bytesParked -= task.size;
    if (wasIdle) slot?.resume();
  }

  /** Remembers, for its source, the time that a task took beyond what its size explains. */
  function noteCost({ source, isStranger, took, size }: Task): void {
    const excess = took - size * MS_PER_BYTE;
    if (usage.took(source, excess) && isStranger) usage.charge(STRANGERS, excess);
  }

  function suspect(task: Task): void {
    if (task.suspect) return;
    task.suspect = true;
    suspects.set(task.source, (suspects.get(task.source) ?? 0) + 1);
  }

  /** Ends the bookkeeping of a task that is done or given up. */
  function finish(task: Task): void {
    task.cancelWait?.();
    if (!task.suspect) return;
    const left = (suspects.get(task.source) ?? 0) - 1;
    if (left > 0) suspects.set(task.source, left);
    else suspects.delete(task.source);
  }

  /**
   * Handles a parser that hung or died. A message that was alone is blamed, but not the first time that the kernel killed its
   * parser. If there were several, the one that the parser was most likely busy with becomes suspect and runs alone, and
   * the others wait again; each failure thus leaves one candidate less.
   */
  function fail(slot: Slot, reason: string, how?: string): void {
    slot.close();
    const inHand = [...slot.inHand.values()];
    const waitingForDns = new Set(inHand.filter((task) => task.parked));
    for (const task of inHand) unpark(task);
    if (!slot.started) {
      const group = getWorkerGroup(slot);
      log.error("parser did not start", { how });
      // Something else may have ended the first, such as the kernel for want of memory.
      if (group.hasFailedToStart) {
        for (const task of [...inHand, ...group.queue.leaveAll()]) giveUp(task, "The parser does not start", how);
        return;
      }
      group.hasFailedToStart = true;
      for (const task of inHand) wait(task);
      dispatch();
      return;
    }
    log.warn("parser replaced", { reason, inHand: inHand.length, how });
    // A parser runs its tasks in order, so the first that does not wait for DNS is the likeliest.
    const likeliest = inHand.find((task) => !waitingForDns.has(task)) ?? inHand[0];
    if (likeliest) slot.charge(likeliest);
    const isSpared = KILLED.test(how ?? "") && likeliest?.spared === false;
    if (likeliest && isSpared) likeliest.spared = true;
    if (likeliest && inHand.length === 1 && reason !== HELD_UP && !isSpared) {
      noteCost(likeliest);
      finish(likeliest);
      const what = likeliest.group === "documents" ? "document" : "message";
      likeliest.reject(new UnparseableError(`The ${what} ${reason}`));
    } else {
      if (likeliest) suspect(likeliest);
      for (const task of inHand) wait(task);
    }
    dispatch();
  }

  function wait(task: Task): void {
    const { queue } = getWorkerGroup(task);
    task.took = 0;
    task.asked = 0;
    if (!task.bulk) {
      task.cancelWait = runtime.setTimer(() => {
        queue.leave(task);
        giveUp(task, TOO_BUSY);
      }, WAIT_MS);
    }
    for (const last of queue.join(task)) giveUp(last, TOO_BUSY);
  }

  function giveUp(task: Task, why: string, error?: unknown): void {
    finish(task);
    task.reject(unavailable(why, error));
  }

  /** The isolated parser of a group. A closed one counts until it is gone: its successor waits until its memory is free. */
  function isolatedIn({ slots }: Group): Slot | undefined {
    const isolated = [...slots].filter((slot) => slot.isolated);
    return isolated.find((slot) => !slot.isClosed) ?? isolated[0];
  }
  const sharedIn = (group: Group): Slot[] => [...group.slots].filter((slot) => !slot.isolated);
  /** All bulk work has one source, so its costly messages say nothing about the others. */
  const mayBeCostly = ({ group, suspect, bulk, source, isStranger }: Task): boolean =>
    group === "documents" ||
    suspect ||
    (!bulk && (suspects.has(source) || usage.isCostly(source))) ||
    (isStranger && usage.used(STRANGERS) > ATTACK_MS);

  /** The isolated parser of a group, or a new one if there may be one more. An idle one of another group makes room. */
  function isolatedFor(group: Group): Slot | undefined {
    const own = isolatedIn(group);
    if (own) return own;
    const others = groups.flatMap((other) => isolatedIn(other) ?? []);
    if (others.length < mostIsolated) return open(group, true);
    others.find((other) => !other.isClosed && other.inHand.size === 0)?.close();
    return undefined;
  }

  async function keepUntil(task: Task, released: Promise<void>): Promise<void> {
    filing.add(task);
    await released;
    filing.delete(task);
    dispatch();
  }

  /** The bytes of a large task: those of a message that takes as much memory. 0 for another. */
  function largeTaskBytes({ size, memory }: Task): number {
    if (memory !== undefined) return memory / TIMES_ITS_SIZE;
    return size > LARGE_BYTES ? size : 0;
  }

  /** False for a large task while too many bytes of others are in the parsers or being filed. */
  function hasRoom(task: Task): boolean {
    const size = largeTaskBytes(task);
    if (size === 0) return true;
    const inHand = groups.flatMap(({ slots }) => [...slots].flatMap((slot) => [...slot.inHand.values()]));
    const bytes = [...inHand, ...filing].reduce((sum, other) => sum + largeTaskBytes(other), 0);
    return bytes === 0 || bytes + size <= mostLargeBytes;
  }

  /** The shared parser that should run a task; undefined if none can now. */
  function sharedFor(task: Task): Slot | undefined {
    const group = getWorkerGroup(task);
    let best: Slot | undefined;
    let fewest = mostInHand;
    const shared = sharedIn(group);
    for (const slot of shared) {
      const { busyWith } = slot;
      const isLent = [...slot.inHand.values()].some((other) => other.group !== task.group);
      if (slot.isClosed || busyWith.length >= fewest || isLent) continue;
      const bytes = busyWith.reduce((sum, { size }) => sum + size, task.size);
      if (busyWith.length > 0 && bytes > MOST_BYTES_IN_HAND) continue;
      best = slot;
      fewest = busyWith.length;
    }
    if (fewest === 0) return best;
    const lent = group === interactive ? idleOfArriving() : undefined;
    return lent ?? (shared.length < group.mostShared ? open(group, false) : best);
  }

  /** A shared parser that arriving mail does not need now. */
  function idleOfArriving(): Slot | undefined {
    if (arriving.queue.length > 0) return undefined;
    const shared = sharedIn(arriving);
    const idle = shared.find((slot) => !slot.isClosed && slot.inHand.size === 0);
    return idle ?? (shared.length < arriving.mostShared ? open(arriving, false) : undefined);
  }

  function run(task: Task, slot: Slot): void {
    getWorkerGroup(task).queue.leave(task);
    task.cancelWait?.();
    slot.give(task);
  }

  function dispatch(): void {
    if (stopped) return;
    for (const group of groups) {
      const { queue } = group;
      for (;;) {
        const task = queue.first((task) => !mayBeCostly(task) && hasRoom(task));
        const slot = task && sharedFor(task);
        if (!slot) break;
        run(task, slot);
      }
      const costly = queue.first((task) => mayBeCostly(task) && hasRoom(task));
      if (costly) {
        const slot = isolatedFor(group);
        if (slot && !slot.isClosed && slot.inHand.size === 0) run(costly, slot);
      }
    }
  }

  return {
    /**
     * Resolves without a result where that is in the file for the reply. `size`: bytes; `released`, `memory`, `keys`: see Task. @throws UnparseableError; AppError server_error 503 if too much waits, or after `stop`
     */
    add(
      { kind, source, workspace, isStranger = false }: Work,
      job: Task["job"],
      size: number,
      {
        released,
        memory,
        keys = [],
      }: { released?: Promise<void> | undefined; memory?: number; keys?: readonly SigningKey[] } = {},
    ): Promise<Prepared | undefined> {
      if (stopped) return Promise.reject(unavailable("The service is stopping"));
      return new Promise<Prepared | undefined>((resolve, reject) => {
        const group: GroupName = kind === "bulk" ? "arriving" : kind === "document" ? "documents" : kind;
        wait({
          id: ++count,
          job,
          keys,
          group,
          bulk: kind === "bulk",
          source,
          workspace,
          isStranger,
          size,
          memory,
          released,
          since: runtime.now(),
          suspect: false,
          spared: false,
          took: 0,
          questions: 0,
          asked: 0,
          parked: false,
          ends: new Map(),
          resolve,
          reject,
        });
        dispatch();
      });
    },
    /** Ends the parsers; every task rejects as unavailable. */
    stop(): void {
      stopped = true;
      const slots = groups.flatMap((group) => [...group.slots]);
      for (const slot of slots) slot.close();
      const inHand = slots.flatMap((slot) => [...slot.inHand.values()]);
      for (const task of [...groups.flatMap(({ queue }) => queue.leaveAll()), ...inHand]) {
        finish(task);
        task.reject(unavailable("The service is stopping"));
      }
    },
  };
}

/** Never rejects. */
async function signatureFor(
  { keys }: Task,
  { signer, header }: Extract<Question, { signer: number }>,
): Promise<Signature> {
  const key = keys[signer];
  try {
    if (!key) throw new Error("there is no such key");
    return { signature: await signHeader(key, header) };
  } catch (error) {
    return { unsigned: (error as Error).message };
  }
}

/**
 * The error for a failed job: the blobs could not be written (`code`), without fault of the message, or parsing failed.
 */
function toTaskError({ message, stack, code }: Extract<JobReply, { failure: unknown }>["failure"]): unknown {
  const error = Object.assign(new Error(message), { code, stack });
  return code === undefined
    ? new UnparseableError(`The parser failed: ${message}`, { cause: error })
    : asUnavailable(error);
}
