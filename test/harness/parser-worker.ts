/**
 * One parser worker, and one worker for documents, for all pools of a process, because a worker takes half a second to start, more than most tests.
 *
 * Invariant: to a pool, it behaves as a worker of its own. A pool that ends during a message may have made the worker hang, so
 * later pools get another worker.
 */
import type { FromWorker, ToWorker } from "../../src/workers/jobs.ts";
import type { ParserWorker } from "../../src/workers/slot.ts";

interface Shared {
  worker: Worker;
  pools: Set<EventTarget>;
  /** The pools of the current messages, and the messages' numbers there, by their number in the worker. */
  inHand: Map<number, { pool: EventTarget; id: number }>;
}

/** By script. */
const shared = new Map<string, Shared>();
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
    shared.delete(script);
    for (const pool of started.pools) pool.dispatchEvent(new ErrorEvent("error", { error, message }));
  });
  worker.addEventListener("close", () => {
    shared.delete(script);
    for (const pool of started.pools) pool.dispatchEvent(new Event("close"));
  });
  return started;
}

/** The object that a pool uses as its worker. */
export function shareWorker(script: string): ParserWorker {
  const mine = shared.get(script) ?? start(script);
  shared.set(script, mine);
  const { worker, pools, inHand } = mine;
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
      if ([...inHand.values()].some((message) => message.pool === pool) && shared.get(script) === mine)
        shared.delete(script);
      if (pools.size === 0 && shared.get(script) !== mine) worker.terminate();
    },
  };
}
