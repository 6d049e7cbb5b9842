/**
 * One parser, the tasks that it has in hand, and the limits on its silence and its memory.
 *
 * Invariant: after `close`, messages from the parser are ignored, and none is sent to it. Its process is killed then, and its
 * memory is free once `gone` is told.
 */
import type { SigningKey } from "../authentication/dkim.ts";
import type { MessagingChild } from "../base/child-process.ts";
import type { Log } from "../base/log.ts";
import { parserMemory, TIMES_ITS_SIZE } from "../base/memory.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Answer } from "../net/dns-cache.ts";
import { checkParserMessage } from "./checked-answers.ts";
import type { FromParser, Job, JobReply, Prepared, Question, Signature, Stage, ToParser } from "./jobs.ts";
import type { StartParser } from "./parser-process.ts";

/** The parsers of a group share a queue: interactive work, arriving mail with bulk work, or documents. */
export type GroupName = "interactive" | "arriving" | "documents";

/** A job on its way through the pool. */
export interface Task {
  readonly id: number;
  readonly job: Job & { reply: string };
  /** Keys that sign for it, which stay here. */
  readonly keys: readonly SigningKey[];
  readonly group: GroupName;
  readonly bulk: boolean;
  readonly source: string;
  readonly workspace: string | undefined;
  readonly isStranger: boolean;
  /** Bytes. */
  readonly size: number;
  /** Bytes of memory that it may take; without it, what a message of its size may take. */
  readonly memory: number | undefined;
  /** Resolves when its result is no longer in memory; without it, at once. */
  readonly released: Promise<void> | undefined;
  /** Epoch ms at which it began to wait for a parser. */
  readonly since: number;
  /** A parser fell silent or died during it, perhaps because of it; it runs alone. */
  suspect: boolean;
  /** The kernel killed its parser once, for which it is not blamed. */
  spared: boolean;
  /** Time that parsers have worked on it, ms. */
  took: number;
  resolve(result: Prepared | undefined): void;
  reject(error: unknown): void;
  cancelWait?: () => void;
  /** The parser that it was last given to. */
  slot?: Slot;
  /** The end of each stage that has begun, epoch ms. */
  readonly ends: Map<Stage, number>;
  /** Number of unanswered questions. */
  questions: number;
  /** Number of all its questions. */
  asked: number;
  /** The task waits for answers, and its parser may take another task meanwhile. */
  parked: boolean;
}

/** Notifications from a slot to the dispatcher. */
export interface SlotEvents {
  /** The parser worked for `ms` on the task. */
  charged(task: Task, ms: number): void;
  asked(slot: Slot, task: Task, question: Question): void;
  replied(slot: Slot, task: Task, reply: JobReply): void;
  /** The parser hung, took too much memory, died or did not start. `reason` continues "The message …", `how` explains it. */
  failed(slot: Slot, reason: string, how?: string): void;
  /** The process has ended, and has no memory any more. */
  gone(slot: Slot): void;
  /** A shared parser was silent for longer than it may hold up others. */
  heldUp(slot: Slot): void;
}

/** Most time that an isolated parser works on its message, without the time that MS_PER_BYTE adds. */
const DEADLINE_MS = 10_000;
/** Time allowed per byte. Ten megabytes of honest mail take half a second on an idle machine of 2026. */
export const MS_PER_BYTE = 1 / 10_000;
/** Most work on one message that holds up others in a shared parser, at once or between questions; then its tasks are moved. */
const SHARED_MS = 2_000;
/**
 * A parser works while it has a processor: on a busy machine it may wait long for one, without fault of its message. Of so
 * many ms at least one counts as work, so that a parser that sleeps ends, too.
 */
const MOST_WAITING = 10;
/** Questions of a message. Ten signatures, a chain of fifty and SPF at its limits come to some two hundred. */
const MOST_QUESTIONS = 1_000;
/** Messages that a parser may send about tasks that it does not have, such as a question of one that has just failed. */
const MOST_STRAY = 1_000;
/** Time between two looks at the work and memory of a busy parser. */
const LOOK_MS = 50;
/** Time for a parser to load its code. */
const START_MS = 60_000;
/** Idle time after which a parser for interactive or costly work ends, which frees some 30 MB. */
const IDLE_MS = 60_000;
/** Idle time after which a shared parser of arriving mail ends: the next message waits 0.2 s for its successor. */
const IDLE_ARRIVING_MS = 10 * 60_000;

export class Slot {
  readonly group: GroupName;
  /** The parser runs costly tasks, one at a time. */
  isolated: boolean;
  /** True once the parser is ready. No message is to blame if it dies before. */
  started = false;
  isClosed = false;
  readonly inHand = new Map<number, Task>();
  readonly #process: MessagingChild;
  readonly #runtime: Pick<Runtime, "now" | "setTimer">;
  readonly #events: SlotEvents;
  /** The last look: when (epoch ms), the work of the parser until then (ms), and what the system told of it. */
  #seen: { at: number; work: number; processorTime: number | undefined } = { at: 0, work: 0, processorTime: undefined };
  /** Work of the parser when it was last heard, or got a task after idling. */
  #heardAt = 0;
  /** The parser was silent for too long at the last look, but may not have been heard: the main thread may have been busy. */
  #isOver = false;
  /** Messages of no task since it was last given one. */
  #stray = 0;
  #cancelTimer: (() => void) | undefined;
  #cancelLook: (() => void) | undefined;

  constructor(
    start: StartParser,
    { group, isolated }: { group: GroupName; isolated: boolean },
    { runtime, log, events }: { runtime: Pick<Runtime, "now" | "setTimer">; log: Log; events: SlotEvents },
  ) {
    this.group = group;
    this.isolated = isolated;
    this.#runtime = runtime;
    this.#events = events;
    this.#process = start({
      heard: (message) => {
        if (!this.isClosed) this.#hear(message, log);
      },
      ended: (how) => {
        this.#fail("ended the parser", how);
        events.gone(this);
      },
    });
  }

  /** The tasks that the parser works on; the others wait for DNS. */
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
    this.#stray = 0;
    this.#look();
    if (wasIdle) this.resume();
    this.#process.send({ ...task.job, id: task.id } satisfies ToParser);
  }

  tell(number: number, answer: Answer | Signature): void {
    if (!this.isClosed) this.#process.send({ number, answer } satisfies ToParser);
  }

  /** Removes a task that is done. */
  release(task: Task): void {
    this.inHand.delete(task.id);
  }

  /** Starts to count its silence, when it gets work after idling. */
  resume(): void {
    this.#noteHeard();
    this.#watch();
  }

  /**
   * Charges a task with the work since the parser was last heard: a parser runs its tasks in turn, so it was busy with the
   * task that it now reports.
   */
  charge(task: Task): void {
    const ms = Math.max(0, this.#work() - this.#heardAt);
    task.took += ms;
    this.#events.charged(task, ms);
  }

  close(): void {
    this.#cancelTimer?.();
    this.#cancelLook?.();
    this.isClosed = true;
    this.#process.kill();
  }

  #hear(message: unknown, log: Log): void {
    let data: FromParser;
    try {
      data = checkParserMessage(message);
    } catch (error) {
      this.#fail("confused the parser", (error as Error).message);
      return;
    }
    const task = "id" in data ? this.inHand.get(data.id) : undefined;
    if (task) this.charge(task);
    this.#noteHeard();
    if ("ready" in data) {
      this.started = true;
      log.debug("parser started");
    } else if (!task) {
      if (++this.#stray > MOST_STRAY) this.#fail("confused the parser", "it says too much");
    } else if (!("question" in data)) this.#events.replied(this, task, data);
    else if (++task.asked > MOST_QUESTIONS) this.#fail("confused the parser", "it asks too much");
    else this.#ask(task, data.question);
    this.#watch();
  }

  /** A question does not give a task more time than one that is silent has. */
  #ask(task: Task, question: Question): void {
    if (!this.isolated && task.took > SHARED_MS) this.#events.heldUp(this);
    if (this.isolated && this.#left() <= 0) this.#fail("took too long");
    if (!this.isClosed) this.#events.asked(this, task, question);
  }

  #fail(reason: string, how?: string): void {
    if (!this.isClosed) this.#events.failed(this, reason, how);
  }

  #watch(): void {
    this.#cancelTimer?.();
    if (this.isClosed) return;
    if (!this.started) this.#cancelTimer = this.#runtime.setTimer(() => this.#fail("did not start"), START_MS);
    else if (this.inHand.size === 0) {
      const idleMs = this.group === "arriving" && !this.isolated ? IDLE_ARRIVING_MS : IDLE_MS;
      this.#cancelTimer = this.#runtime.setTimer(() => this.close(), idleMs);
    }
  }

  /** Looks at the process now and then, while it has tasks. */
  #look(): void {
    if (this.#cancelLook) return;
    this.#see(0);
    const again = () => {
      this.#cancelLook = undefined;
      if (this.isClosed || this.inHand.size === 0) return;
      this.#see(LOOK_MS);
      if ((this.#process.memory() ?? 0) > this.#mostMemory()) this.#fail("took too much memory");
      else this.#limitSilence();
      if (!this.isClosed) this.#cancelLook = this.#runtime.setTimer(again, LOOK_MS);
    };
    this.#cancelLook = this.#runtime.setTimer(again, LOOK_MS);
  }

  /** `passed`: ms since the last look, by which it worked where the system does not tell. */
  #see(passed: number): void {
    const { work, processorTime: before } = this.#seen;
    const processorTime = this.#process.processorTime();
    const isMeasured = processorTime !== undefined && before !== undefined;
    const worked = isMeasured ? Math.max(processorTime - before, passed / MOST_WAITING) : passed;
    this.#seen = { at: this.#runtime.now(), work: work + worked, processorTime };
  }

  /** Work of the parser since its start, ms; since the last look, the time that has passed. */
  #work(): number {
    const { at, work } = this.#seen;
    return work + Math.min(LOOK_MS, Math.max(0, this.#runtime.now() - at));
  }

  #noteHeard(): void {
    this.#heardAt = this.#work();
    this.#isOver = false;
  }

  #limitSilence(): void {
    const wasOver = this.#isOver;
    const most = this.isolated ? this.#left() : SHARED_MS;
    this.#isOver = this.started && !this.isIdle && this.#work() - this.#heardAt >= most - LOOK_MS;
    if (!wasOver || !this.#isOver) return;
    if (this.isolated) this.#fail("took too long");
    else this.#events.heldUp(this);
  }

  #mostMemory(): number {
    return parserMemory(
      [...this.inHand.values()].reduce((sum, { memory, size }) => sum + (memory ?? size * TIMES_ITS_SIZE), 0),
    );
  }

  /** Work that an isolated parser has left for its task, ms. */
  #left(): number {
    const [{ size, took } = { size: 0, took: 0 }] = this.inHand.values();
    return DEADLINE_MS + Math.round(size * MS_PER_BYTE) - took;
  }
}
