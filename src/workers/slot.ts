/**
 * One worker, the tasks that it has in hand, and the limits on its silence.
 *
 * Invariant: after `close`, messages from the worker are ignored, and none is sent to it.
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

/** The workers of a group share a queue: interactive work, arriving mail with bulk work, or documents. */
export type GroupName = "interactive" | "arriving" | "documents";

/** A job on its way through the pool. */
export interface Task {
  readonly id: number;
  readonly job: Job;
  readonly group: GroupName;
  readonly bulk: boolean;
  readonly source: string;
  /** Bytes. */
  readonly size: number;
  /** Bytes by which the process may grow during it; without it, any. */
  readonly memory: number | undefined;
  /** Resolves when its result is no longer in memory; without it, at once. */
  readonly released: Promise<void> | undefined;
  /** Epoch ms at which it began to wait for a worker. */
  readonly since: number;
  /** A worker fell silent or died during it, perhaps because of it; it runs alone. */
  suspect: boolean;
  /** Time of workers that it has used, ms. */
  took: number;
  resolve(result: Prepared): void;
  reject(error: unknown): void;
  cancelWait?: () => void;
  /** The worker that it was last given to. */
  slot?: Slot;
  /** The end of each stage that has begun, epoch ms. */
  readonly ends: Map<Stage, number>;
  /** Number of unanswered DNS questions. */
  questions: number;
  /** It waits for DNS, and its worker may take another task meanwhile. */
  parked: boolean;
}

/** Notifications from a slot to the dispatcher. */
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

/** Longest silence of a worker with one message, without the time that MS_PER_BYTE adds. */
const DEADLINE_MS = 10_000;
/** Time allowed per byte. Ten megabytes of honest mail take half a second on an idle machine of 2026. */
export const MS_PER_BYTE = 1 / 10_000;
/** Longest silence of a shared worker, during which one message may hold up others; then its tasks are moved. */
const SHARED_MS = 2_000;
/** The last part of these limits, in which the main thread reads what the worker said while the thread was busy. */
const UNHEARD_MS = 100;
/** Time between two looks at the memory of a task that has a limit. */
const LOOK_MS = 50;
/** Time for a worker to load its code. */
const START_MS = 60_000;
/** Idle time after which a worker for interactive or costly work ends, which frees some 30 MB. */
const IDLE_MS = 60_000;
/** The same for a shared worker of arriving mail: the next message waits 0.2 s for its successor. */
const IDLE_ARRIVING_MS = 10 * 60_000;

export class Slot {
  readonly group: GroupName;
  /** It runs costly tasks, one at a time. */
  isolated: boolean;
  /** True once the worker is ready. No message is to blame if it dies before. */
  started = false;
  isClosed = false;
  readonly inHand = new Map<number, Task>();
  readonly #worker: ParserWorker;
  readonly #runtime: Pick<Runtime, "now" | "setTimer">;
  readonly #events: SlotEvents;
  /** When the worker was last heard, or got work after idling; epoch ms. */
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

  /** The tasks that the worker works on; the others wait for DNS. */
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
    // Without this, Bun spins its event loop where nothing else keeps the process alive, as in a command.
    this.#worker.ref();
    if (wasIdle) this.resume();
    if (task.memory !== undefined) this.#limitMemory(task, process.memoryUsage.rss() + task.memory);
    this.#worker.postMessage({ ...task.job, id: task.id } satisfies ToWorker);
  }

  tell(number: number, answer: Answer): void {
    if (!this.isClosed) this.#worker.postMessage({ number, answer } satisfies ToWorker);
  }

  /** Removes a task that is done. */
  release(task: Task): void {
    this.inHand.delete(task.id);
    if (this.inHand.size === 0) this.#worker.unref();
  }

  /** Starts to count its silence, when it gets work after idling. */
  resume(): void {
    this.#heardAt = this.#runtime.now();
    this.#watch();
  }

  /** Makes it the isolated worker of its one task, with the time that a message alone may take. */
  isolate(): void {
    this.isolated = true;
    this.#limitSilence(this.#deadline() - SHARED_MS);
  }

  /**
   * Charges a task with the time since the worker was last heard: a worker has one thread and runs its tasks in turn,
   * so it was busy with the task that it now reports.
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
    else if (this.inHand.size === 0) {
      const idleMs = this.group === "arriving" && !this.isolated ? IDLE_ARRIVING_MS : IDLE_MS;
      this.#cancelTimer = this.#runtime.setTimer(() => this.close(), idleMs);
    }
  }

  /** A thread has no limit of its own, so the memory of the whole process counts. */
  #limitMemory(task: Task, most: number): void {
    this.#runtime.setTimer(() => {
      if (this.isClosed || !this.inHand.has(task.id)) return;
      if (process.memoryUsage.rss() > most) this.#fail("took too much memory");
      else this.#limitMemory(task, most);
    }, LOOK_MS);
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
