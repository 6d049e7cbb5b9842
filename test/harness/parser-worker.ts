/**
 * One parser worker for all pools of a process: a worker takes half a second to load what it parses with, which is more
 * than most tests take.
 *
 * Invariant: a pool sees what a worker of its own would show it. One that ends with a message in hand may have hung on
 * it, so the pools after it get another worker.
 */
import type { FromWorker, ToWorker } from "../../src/workers/jobs.ts";
import type { ParserWorker } from "../../src/workers/slot.ts";

interface Shared {
  worker: Worker;
  pools: Set<EventTarget>;
  /** Whose the messages in hand are, and their number there, by the number that the worker knows them by. */
  inHand: Map<number, { pool: EventTarget; id: number }>;
}

let shared: Shared | undefined;
let count = 0;

const say = (pool: EventTarget, data: FromWorker): boolean => pool.dispatchEvent(new MessageEvent("message", { data }));

function start(script: string): Shared {
  const worker = new Worker(script) as Worker & { unref(): void };
  worker.unref();
  const started: Shared = { worker, pools: new Set(), inHand: new Map() };
  worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
    if ("ready" in data) return;
    const message = started.inHand.get(data.id);
    if (!("question" in data)) started.inHand.delete(data.id);
    if (message) say(message.pool, { ...data, id: message.id });
  });
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    const { error, message } = event;
    shared = undefined;
    for (const pool of started.pools) pool.dispatchEvent(new ErrorEvent("error", { error, message }));
  });
  worker.addEventListener("close", () => {
    shared = undefined;
    for (const pool of started.pools) pool.dispatchEvent(new Event("close"));
  });
  return started;
}

/** What a pool takes for its worker. */
export function shareWorker(script: string): ParserWorker {
  shared ??= start(script);
  const { worker, pools, inHand } = shared;
  const mine = shared;
  const pool = new EventTarget();
  pools.add(pool);
  setImmediate(() => say(pool, { ready: true }));
  return {
    addEventListener: pool.addEventListener.bind(pool),
    ref: () => {},
    unref: () => {},
    postMessage(message: ToWorker) {
      if (!("id" in message)) return worker.postMessage(message);
      inHand.set(++count, { pool, id: message.id });
      worker.postMessage({ ...message, id: count });
    },
    terminate() {
      pools.delete(pool);
      if ([...inHand.values()].some((message) => message.pool === pool) && shared === mine) shared = undefined;
      if (pools.size === 0 && shared !== mine) worker.terminate();
    },
  };
}
