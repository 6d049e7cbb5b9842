/**
 * Starts readers, and gives them inquiries to the database (mailbox/state/readers.ts), one at a time each, in a fair order. One
 * reader is kept ready; more start while inquiries wait.
 *
 * Invariants:
 * - A reader has one state of the database for DEADLINE_MS at most: until then, the write-ahead log grows. One that takes longer is
 *   killed, and another takes its place once it is gone.
 * - An inquiry is made after all commits before it: a reader begins to read when it gets it.
 * - What is under way is bounded, and each asker's share of it. Those come first who used the readers least lately.
 */
import { readFile, rm, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { decodeChildMessage } from "../base/child-messages.ts";
import type { MessagingChild } from "../base/child-process.ts";
import { AppError, unavailable } from "../base/errors.ts";
import type { Schema } from "../base/json-schema.ts";
import type { Log } from "../base/log.ts";
import { memoryLimit, readerMemory } from "../base/memory.ts";
import type { Metrics } from "../base/metrics.ts";
import { awaitAtMost } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { createShares } from "../base/shares.ts";
import type { Readers } from "../mailbox/state/readers.ts";
import { createFairQueue, createSourceUsage, type Waiting } from "./fair-queue.ts";
import {
  checkAnswer,
  checkReaderMessage,
  type FromReader,
  type ReaderReply,
  type ToReader,
} from "./reader-messages.ts";
import { type StartReader, startReader } from "./reader-process.ts";

export interface ReaderPool extends Readers {
  /** Starts the reader that is kept ready. */
  warm(): void;
  /**
   * Does `work` while no reader has a state of the database, once they have answered what they were given; after half a second
   * even if one has not.
   */
  atRest(work: () => void): Promise<void>;
  /** `listener` is called when a reader is gone, and with it its state of the database. */
  whenGone(listener: () => void): void;
  /** Ends the readers; every inquiry rejects as unavailable. Resolves when their processes are gone. */
  stop(): Promise<void>;
}

/** Longest time for an answer. */
const DEADLINE_MS = 10_000;
/** Time between two looks at a reader at work. */
const LOOK_MS = 100;
/** Longest wait for a reader. */
const WAIT_MS = 30_000;
/** Inquiries under way, in which workspaces and persons have shares. */
const MOST_UNDER_WAY = 1_000;
/** Time for a reader to load its code. */
const START_MS = 60_000;
/** Idle time after which a reader ends that is not the last one, or has more memory than the last one keeps. */
const IDLE_MS = 60_000;
const KEPT_BYTES = 64 * 1024 * 1024;
/** Longest wait of what is done at rest. */
const REST_MS = 500;
/** Memory for each reader. */
const MEMORY_PER_READER = 512 * 1024 * 1024;
const MOST_READERS = 8;
/** Bytes of an answer in a file. */
const LARGEST_REPLY = 32 * 1024 * 1024;

interface Task extends Waiting {
  message: ToReader;
  answer: Schema;
  /** A reader ended before it was ready, without fault of the inquiry. */
  hasWaitedTwice: boolean;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
  cancelWait(): void;
}

interface Slot {
  process: MessagingChild;
  isReady: boolean;
  /** True once it was given an inquiry. One that ends before is replaced when there is an inquiry for it. */
  wasAsked: boolean;
  /** Killed, perhaps not gone yet. Nothing that it says counts any more. */
  isClosed: boolean;
  task: Task | undefined;
  /** Since when it has been starting, answering or idle, epoch ms. */
  since: number;
  /** True if it had taken too long at the last look. Its answer may not have been heard, as this process was busy. */
  isOver: boolean;
  cancelTimer(): void;
}

/** Leaves a processor to the main thread. `memory`: bytes. */
const readersFor = (memory: number, processors: number): number =>
  Math.max(1, Math.min(MOST_READERS, processors - 1, Math.round(memory / MEMORY_PER_READER)));

export function createReaderPool({
  file,
  replyFolder,
  runtime,
  log,
  metrics,
  most = readersFor(memoryLimit(), availableParallelism()),
  start = startReader,
}: {
  /** The database. */
  file: string;
  /** Folder of large answers; it is emptied at each start. */
  replyFolder: string;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  metrics: Pick<Metrics, "gauge" | "counter">;
  /** Most readers at once. */
  most?: number;
  start?: StartReader;
}): ReaderPool {
  const usage = createSourceUsage(runtime.now);
  const queue = createFairQueue<Task>(usage, { most: MOST_UNDER_WAY, mostBytes: Number.POSITIVE_INFINITY });
  const underWay = createShares({ most: MOST_UNDER_WAY, runtime });
  const slots = new Set<Slot>();
  let count = 0;
  const goneListeners: (() => void)[] = [];
  /** Resolves when no reader is at work. Meanwhile none is given any. */
  let rest: PromiseWithResolvers<void> | undefined;
  let stopped: PromiseWithResolvers<void> | undefined;

  const countBusy = (): number => [...slots].filter(({ task }) => task).length;
  metrics.gauge("mailroom_readers", "Processes that answer searches, and how many there may be", () => [
    [{ kind: "busy" }, countBusy()],
    [{ kind: "idle" }, slots.size - countBusy()],
    [{ kind: "most" }, most],
  ]);
  metrics.gauge("mailroom_readers_waiting", "Searches that wait for a reader", () => [[{}, queue.length]]);
  const failures = metrics.counter<{ reason: string }>(
    "mailroom_reader_failures_total",
    "Readers that were replaced, and why",
  );

  function open(): Slot {
    const slot: Slot = {
      process: start(file, {
        heard: (message) => {
          if (!slot.isClosed) hear(slot, message);
        },
        ended: (how) => gone(slot, how),
      }),
      ...{ isReady: false, wasAsked: false, isClosed: false, task: undefined },
      ...{ since: runtime.now(), isOver: false, cancelTimer() {} },
    };
    slots.add(slot);
    watch(slot);
    return slot;
  }

  function close(slot: Slot): void {
    slot.isClosed = true;
    slot.cancelTimer();
    slot.process.kill();
  }

  /** Kills a reader because of what it does. */
  function fail(slot: Slot, reason: "slow" | "memory" | "confused", error?: unknown): void {
    const { task } = slot;
    failures.add({ reason });
    log.warn("reader replaced", { reason, inquiry: task?.message.name, error });
    close(slot);
    slot.task = undefined;
    task?.reject(
      reason === "confused"
        ? new Error("a reader gave no answer", { cause: error })
        : unavailable("The search takes too long: look for less at once"),
    );
  }

  function gone(slot: Slot, how: string): void {
    slots.delete(slot);
    slot.cancelTimer();
    for (const listener of goneListeners) listener();
    const { task, isReady, wasAsked } = slot;
    if (!slot.isClosed) {
      failures.add({ reason: isReady ? "died" : "start" });
      log.error(isReady ? "reader died" : "reader did not start", { how, inquiry: task?.message.name });
    }
    if (task && !isReady && !task.hasWaitedTwice) {
      task.hasWaitedTwice = true;
      wait(task);
    } else task?.reject(unavailable("The search was interrupted; try again", how));
    if (stopped) {
      if (slots.size === 0) stopped.resolve();
      return;
    }
    dispatch();
    if (isReady && wasAsked && slots.size === 0) open();
  }

  /** Looks after a reader: its time and memory while it starts or answers, else how long it has been idle. */
  function watch(slot: Slot): void {
    slot.cancelTimer();
    if (slot.isClosed) return;
    if (slot.isReady && !slot.task) {
      slot.cancelTimer = runtime.setTimer(() => {
        if (slots.size > 1 || (slot.process.memory() ?? 0) > KEPT_BYTES) close(slot);
        else watch(slot);
      }, IDLE_MS);
      return;
    }
    slot.cancelTimer = runtime.setTimer(() => {
      const wasOver = slot.isOver;
      slot.isOver = runtime.now() - slot.since >= (slot.isReady ? DEADLINE_MS : START_MS);
      if ((slot.process.memory() ?? 0) > readerMemory()) fail(slot, "memory");
      else if (wasOver && slot.isOver) fail(slot, "slow");
      else watch(slot);
    }, LOOK_MS);
  }

  /** Begins another time of a reader. */
  function renew(slot: Slot): void {
    slot.since = runtime.now();
    slot.isOver = false;
    watch(slot);
  }

  function hear(slot: Slot, message: unknown): void {
    let said: FromReader;
    try {
      said = checkReaderMessage(message);
    } catch (error) {
      fail(slot, "confused", error);
      return;
    }
    if ("ready" in said) {
      slot.isReady = true;
      renew(slot);
      return;
    }
    const { task } = slot;
    if (task?.message.id !== said.id) {
      fail(slot, "confused", new Error("it answers what it was not asked"));
      return;
    }
    const ms = runtime.now() - slot.since;
    usage.charge(task.source, ms);
    if (task.workspace !== undefined) usage.charge(task.workspace, ms);
    slot.task = undefined;
    renew(slot);
    void settle(task, said);
    dispatch();
  }

  function wait(task: Task): void {
    task.cancelWait = runtime.setTimer(() => {
      queue.leave(task);
      task.reject(unavailable(TOO_BUSY));
    }, WAIT_MS);
    queue.join(task);
  }

  function dispatch(): void {
    if (rest && countBusy() === 0) rest.resolve();
    if (rest) return;
    for (let task = queue.first(() => true); task; task = queue.first(() => true)) {
      const idle = [...slots].find((slot) => !slot.isClosed && !slot.task);
      const slot = idle ?? (slots.size < most ? open() : undefined);
      if (!slot) return;
      queue.leave(task);
      task.cancelWait();
      slot.task = task;
      slot.wasAsked = true;
      if (slot.isReady) renew(slot);
      slot.process.send(task.message);
    }
  }

  return {
    async ask({ workspaceId, userId = "", keyId }, { name, answer }, given) {
      if (stopped) throw unavailable("The service is stopping");
      const held = underWay.take({ workspaceId, userId, keyId }, 1);
      if (held === "yours") throw new AppError("rate_limited", TOO_MANY, { retryAfter: 5 });
      if (held === "all") throw unavailable(TOO_BUSY);
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      const id = ++count;
      const now = runtime.now();
      // A command beside the server has the same folder.
      const reply = join(replyFolder, `${process.pid}-${id}.answer`);
      wait({
        message: { id, name, given, now, reply },
        answer,
        source: keyId ?? userId,
        workspace: workspaceId,
        since: now,
        size: 0,
        hasWaitedTwice: false,
        resolve,
        reject,
        cancelWait() {},
      });
      dispatch();
      try {
        return (await promise) as never;
      } finally {
        held.release();
      }
    },
    warm() {
      if (slots.size === 0 && !stopped) open();
    },
    async atRest(work) {
      rest = Promise.withResolvers();
      dispatch();
      try {
        await awaitAtMost(runtime, REST_MS, rest.promise);
        work();
      } finally {
        rest = undefined;
        if (!stopped) dispatch();
      }
    },
    whenGone: (listener) => void goneListeners.push(listener),
    stop() {
      stopped ??= Promise.withResolvers();
      rest?.resolve();
      const tasks = [...queue.leaveAll(), ...[...slots].flatMap(({ task }) => task ?? [])];
      for (const task of tasks) {
        task.cancelWait();
        task.reject(unavailable("The service is stopping"));
      }
      for (const slot of slots) {
        slot.task = undefined;
        close(slot);
      }
      if (slots.size === 0) stopped.resolve();
      return stopped.promise;
    },
  };
}

const TOO_BUSY = "Too many searches are under way: try again in a moment";
const TOO_MANY = "Too many searches of yours are under way: try again when they have ended";

/** Settles an inquiry by what a reader said of it. */
async function settle({ message: { reply }, answer, resolve, reject }: Task, said: ReaderReply): Promise<void> {
  const { refusal, failure } = said;
  try {
    if (refusal) {
      const { code, message, status, retryAfter } = refusal;
      throw new AppError(code, message, { status, ...(retryAfter !== undefined && { retryAfter }) });
    }
    if (failure) throw Object.assign(new Error(failure.message), { stack: failure.stack });
    resolve(checkAnswer("answer" in said ? said.answer : await readReply(reply), answer));
  } catch (error) {
    reject(error);
  }
}

/** Reads an answer from its file, and removes that. @throws Error for one that is too large */
async function readReply(path: string): Promise<unknown> {
  try {
    if ((await stat(path)).size > LARGEST_REPLY) throw new Error("the answer is too large");
    return (decodeChildMessage(await readFile(path)) as ReaderReply).answer;
  } finally {
    await rm(path, { force: true });
  }
}
