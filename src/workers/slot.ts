/**
 * One worker, the tasks it has in hand, and how long it may be silent over them.
 *
 * Invariant: after `close`, nothing that the worker says is heard, and nothing is sent to it.
 */
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Answer } from "../net/dns-cache.ts";
import type { FromWorker, Job, JobReply, Prepared, Question, Stage, ToWorker } from "./jobs.ts";

/** The parts of a Worker that the pool uses. */
export type ParserWorker = Pick<Worker, "addEventListener" | "postMessage" | "terminate"> & {
  ref(): void;
  unref(): void;
};

/** Workers of one group share a queue: work that somebody waits for, and mail that arrives (with bulk work). */
export type GroupName = "interactive" | "arriving";

/** A job on its way through the pool. */
export interface Task {
  readonly id: number;
  readonly job: Job;
  readonly group: GroupName;
  readonly bulk: boolean;
  readonly source: string;
  /** Bytes. */
  readonly size: number;
  /** Epoch ms at which it began to wait for a worker. */
  readonly since: number;
  /** A worker was silent over it or died with it, perhaps because of it: it runs alone. */
  suspect: boolean;
  /** Ms of a worker. */
  took: number;
  resolve(result: Prepared): void;
  reject(error: unknown): void;
  cancelWait?: () => void;
  /** The last worker that it was given to. */
  slot?: Slot;
  /** Epoch ms at which a stage that has begun ends. */
  readonly ends: Map<Stage, number>;
  /** DNS questions that it waits for. */
  questions: number;
  /** It waits for DNS, and its place is free for another. */
  parked: boolean;
}

/** Notifications from a slot to the pool. */
export interface SlotEvents {
  /** The worker spent `ms` on the task. */
  charged(task: Task, ms: number): void;
  asked(slot: Slot, task: Task, question: Question): void;
  replied(slot: Slot, task: Task, reply: JobReply): void;
  /** The worker hung, died or did not start. `reason` continues "The message …". */
  failed(slot: Slot, reason: string, error?: unknown): void;
  closed(slot: Slot): void;
  /** A shared worker was silent for longer than it may hold up others. */
  heldUp(slot: Slot): void;
}

/** How long a worker may be silent over one message that is alone, and what its size adds to that. */
const DEADLINE_MS = 10_000;
/** For honest messages: ten megabytes take half a second, on a machine of 2026 that has nothing else to do. */
export const MS_PER_BYTE = 1 / 10_000;
/** How long a shared worker may be silent before its tasks are moved: so long one message holds up others. */
const SHARED_MS = 2_000;
/** Part of these limits, for messages of the worker that wait unread while the main thread is busy. */
const UNHEARD_MS = 100;
/** To load the code that a worker needs. */
const START_MS = 60_000;
/** A worker that is idle so long ends if it was started for interactive or costly work: some 30 MB are free again. */
const IDLE_MS = 60_000;

export class Slot {
  readonly group: GroupName;
  /** It runs one task at a time, the costly ones. */
  isolated: boolean;
  /** It has started. A worker that dies before that was not killed by a message. */
  started = false;
  isClosed = false;
  readonly inHand = new Map<number, Task>();
  readonly #worker: ParserWorker;
  readonly #runtime: Pick<Runtime, "now" | "setTimer">;
  readonly #events: SlotEvents;
  /** Epoch ms at which it was last heard, or was given work after being idle. */
  #heardAt = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(
    worker: ParserWorker,
    { group, isolated }: { group: GroupName; isolated: boolean },
    { runtime, log, events }: { runtime: Pick<Runtime, "now" | "setTimer">; log: Log; events: SlotEvents },
  ) {
    this.group = group;
    this.isolated = isolated;
    this.#worker = worker;
    this.#runtime = runtime;
    this.#events = events;
    worker.unref();
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
      if (!this.isClosed) this.#hear(data, log);
    });
    worker.addEventListener("error", (event: ErrorEvent) => {
      event.preventDefault();
      this.#fail("crashed the parser", event.error ?? event.message);
    });
    worker.addEventListener("close", () => this.#fail("ended the parser"));
  }

  /** Tasks that it works on; the others wait for DNS. */
  get busyWith(): Task[] {
    return [...this.inHand.values()].filter((task) => !task.parked);
  }

  get isIdle(): boolean {
    return this.busyWith.length === 0;
  }

  give(task: Task): void {
    const wasIdle = this.isIdle;
    this.inHand.set(task.id, task);
    task.slot = this;
    // Where nothing else keeps the process, as in a command, Bun would turn its event loop without a pause meanwhile.
    this.#worker.ref();
    if (wasIdle) this.resume();
    this.#worker.postMessage({ ...task.job, id: task.id } satisfies ToWorker);
  }

  tell(number: number, answer: Answer): void {
    if (!this.isClosed) this.#worker.postMessage({ number, answer } satisfies ToWorker);
  }

  /** The task is done. */
  release(task: Task): void {
    this.inHand.delete(task.id);
    if (this.inHand.size === 0) this.#worker.unref();
  }

  /** It was idle and has work now: its silence counts from here. */
  resume(): void {
    this.#heardAt = this.#runtime.now();
    this.#watch();
  }

  /** Its one task is costly: it keeps it for itself, with the time that a message alone may take. */
  isolate(): void {
    this.isolated = true;
    this.#limitSilence(this.#deadline() - SHARED_MS);
  }

  /**
   * Counts the time since the worker was last heard for a task: a worker has one thread and takes its tasks in turn, so it
   * was busy with the task that it speaks of.
   */
  charge(task: Task): void {
    const ms = Math.max(0, this.#runtime.now() - this.#heardAt);
    task.took += ms;
    this.#events.charged(task, ms);
  }

  close(): void {
    this.#cancelTimer?.();
    this.isClosed = true;
    this.#worker.terminate();
    this.#events.closed(this);
  }

  #hear(data: FromWorker, log: Log): void {
    const task = "id" in data ? this.inHand.get(data.id) : undefined;
    if (task) this.charge(task);
    this.#heardAt = this.#runtime.now();
    if ("ready" in data) {
      this.started = true;
      log.debug("parser worker started");
    } else if (task && "question" in data) this.#events.asked(this, task, data.question);
    else if (task && !("question" in data)) this.#events.replied(this, task, data);
    this.#watch();
  }

  #fail(reason: string, error?: unknown): void {
    if (!this.isClosed) this.#events.failed(this, reason, error);
  }

  #watch(): void {
    this.#cancelTimer?.();
    if (this.isClosed) return;
    if (!this.started) this.#cancelTimer = this.#runtime.setTimer(() => this.#fail("did not start"), START_MS);
    else if (!this.isIdle) this.#limitSilence(this.isolated ? this.#deadline() : SHARED_MS);
    else if (this.inHand.size === 0 && (this.isolated || this.group === "interactive")) {
      this.#cancelTimer = this.#runtime.setTimer(() => this.close(), IDLE_MS);
    }
  }

  #deadline(): number {
    const [only] = this.inHand.values();
    return DEADLINE_MS + Math.round((only?.size ?? 0) * MS_PER_BYTE);
  }

  #limitSilence(ms: number): void {
    const over = () => (this.isolated ? this.#fail("took too long") : this.#events.heldUp(this));
    this.#cancelTimer = this.#runtime.setTimer(() => {
      this.#cancelTimer = this.#runtime.setTimer(over, UNHEARD_MS);
    }, ms - UNHEARD_MS);
  }
}
