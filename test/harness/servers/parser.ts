/**
 * One parser for all pools of a process, because starting one takes longer than most tests; and parsers that run other scripts.
 *
 * Invariant: to a pool, the shared one behaves as a parser of its own. A pool that ends during a message may have made it hang,
 * so later pools get another one.
 */
import type { MessagingChild } from "../../../src/base/child-process.ts";
import { startMessagingChild } from "../../../src/base/child-process.ts";
import type { FromParser, ToParser } from "../../../src/workers/jobs.ts";
import { type StartParser, startParser } from "../../../src/workers/parser-process.ts";
import { poisonOf } from "./poison.ts";

type Events = Parameters<StartParser>[0];

interface Shared {
  child: MessagingChild;
  pools: Set<Events>;
  /** The pools of the current messages, and the messages' numbers there, by their number in the parser. */
  inHand: Map<number, { pool: Events; id: number }>;
}

let shared: Shared | undefined;
let count = 0;

function start(): Shared {
  const started: Shared = {
    pools: new Set(),
    inHand: new Map(),
    child: startParser({
      heard(message) {
        const data = message as FromParser;
        if ("ready" in data) return;
        const known = started.inHand.get(data.id);
        if (!("question" in data)) started.inHand.delete(data.id);
        known?.pool.heard({ ...data, id: known.id });
      },
      ended(how) {
        if (shared === started) shared = undefined;
        for (const pool of started.pools) pool.ended(how);
      },
    }),
  };
  return started;
}

/** Starts a parser for a pool: one process that all pools of a file share. */
export const shareParser: StartParser = (pool) => {
  shared ??= start();
  const mine = shared;
  const { child, pools, inHand } = mine;
  const numbers = new Set<number>();
  pools.add(pool);
  setImmediate(() => pool.heard({ ready: true }));
  return {
    memory: () => undefined,
    processorTime: () => undefined,
    send(message) {
      const data = message as ToParser;
      if (!("id" in data)) return child.send(data);
      numbers.add(++count);
      inHand.set(count, { pool, id: data.id });
      child.send({ ...data, id: count });
    },
    kill() {
      pools.delete(pool);
      if ([...numbers].some((number) => inHand.has(number)) && shared === mine) shared = undefined;
      for (const number of numbers) inHand.delete(number);
      if (pools.size === 0 && shared !== mine) child.kill();
      setImmediate(() => pool.ended("killed"));
    },
  };
};

/** The shared parser, which to a pool seems to hang or die at certain messages. */
export const sharePoisoned: StartParser = (pool) => {
  const parser = shareParser(pool);
  return {
    ...parser,
    send(message) {
      const poison = poisonOf(message as ToParser);
      if (poison === undefined) parser.send(message);
      else if (poison !== "hang") parser.kill();
    },
  };
};

/** Parsers that run a script of this folder. Their work is measured by the clock of the test. */
export const parsersOf =
  (script: string): StartParser =>
  (events) => ({
    ...startMessagingChild("parser", [process.execPath, new URL(script, import.meta.url).pathname], events),
    processorTime: () => undefined,
  });
