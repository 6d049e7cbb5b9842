/** A runtime for tests: a clock that the test moves, timers on it, real randomness and HTTP, and DNS without any name. */
import { randomBytes } from "node:crypto";
import type { Runtime } from "../../src/base/runtime.ts";
import { zone } from "./peers/dns-server.ts";
import { until } from "./until.ts";

export interface FakeRuntime extends Runtime {
  /** Moves the clock to `at` (epoch ms), and fires the timers on the way in order. */
  advanceTo(at: number): void;
  /** Sets the clock ahead or back by this much. No time passes, and no timer fires. */
  setBy(ms: number): void;
  /** Epoch ms of the earliest timer, or undefined. */
  nextTimer(): number | undefined;
  /** Epoch ms of every timer. */
  timers(): number[];
}

/** The time at which every fake clock starts. */
export const START = Date.parse("2026-01-05T09:00:00Z");

const NO_NAMES = zone({});

export function fakeRuntime(overrides: Partial<Runtime> = {}): FakeRuntime {
  let now = START;
  let set = 0;
  const timers = new Set<{ at: number; wake: () => void }>();
  const earliest = () => [...timers].sort((a, b) => a.at - b.at)[0];
  return {
    now: () => now,
    elapsed: () => now - set - START,
    setTimer(wake, ms) {
      const timer = { at: now + ms, wake };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    randomBytes: (size) => randomBytes(size),
    dns: NO_NAMES,
    fetch,
    ...overrides,
    advanceTo(at) {
      for (let timer = earliest(); timer && timer.at <= at; timer = earliest()) {
        timers.delete(timer);
        now = Math.max(now, timer.at);
        timer.wake();
      }
      now = at;
    },
    setBy(ms) {
      now += ms;
      set += ms;
      for (const timer of timers) timer.at += ms;
    },
    nextTimer: () => earliest()?.at,
    timers: () => [...timers].map(({ at }) => at),
  };
}

/** Waits for a reply that is held for a second of the clock, as those to reports are, or comes at once. */
export async function heldReply<T>(runtime: FakeRuntime, reply: Promise<T>): Promise<T> {
  const at = runtime.now() + 1_000;
  const others = runtime.timers().filter((time) => time === at).length;
  const isHeld = () => runtime.timers().filter((time) => time === at).length > others;
  let isDone = false;
  const done = reply.finally(() => {
    isDone = true;
  });
  await until(() => isDone || isHeld());
  if (!isDone) runtime.advanceTo(at);
  return done;
}
