/** Rate limits, on a fake clock. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createRateLimit } from "../../src/access/rate.ts";

const START = Date.parse("2026-01-05T09:00:00Z");
const limitOf = (limit: number, cooldown: number, capacity?: number) =>
  createRateLimit(
    () => limit,
    () => cooldown,
    capacity,
  );

describe("windows", () => {
  test("begin at the first request and last a minute", () => {
    const rate = limitOf(2, 60);
    expect(rate.take("a", START)).toEqual({ limit: 2, remaining: 1, endsIn: 60 });
    expect(rate.take("a", START + 59_999)).toEqual({ limit: 2, remaining: 0, endsIn: 1 });
    expect(rate.take("a", START + 60_000)).toEqual({ limit: 2, remaining: 1, endsIn: 60 });
  });

  test("count each name by itself", () => {
    const rate = limitOf(1, 60);
    expect(rate.take("a", START).remaining).toBe(0);
    expect(rate.take("b", START)).toEqual({ limit: 1, remaining: 0, endsIn: 60 });
    expect(rate.take("b", START).retryAfter).toBe(60);
    expect(rate.take("c", START).retryAfter).toBeUndefined();
  });
});

describe("the cooldown", () => {
  test("starts at the first request over the limit, and ends in a new window", () => {
    const rate = limitOf(1, 60);
    rate.take("a", START);
    expect(rate.take("a", START + 50_000)).toEqual({ limit: 1, remaining: 0, endsIn: 60, retryAfter: 60 });
    expect(rate.take("a", START + 60_000)).toEqual({ limit: 1, remaining: 0, endsIn: 50, retryAfter: 50 });
    expect(rate.take("a", START + 109_999)).toEqual({ limit: 1, remaining: 0, endsIn: 1, retryAfter: 1 });
    expect(rate.take("a", START + 110_000)).toEqual({ limit: 1, remaining: 0, endsIn: 60 });
    expect(rate.take("a", START + 110_000).retryAfter).toBe(60);
  });

  test("may be a fraction of a second: Retry-After is a whole one", () => {
    const rate = limitOf(1, 0.25);
    rate.take("a", START);
    expect(rate.take("a", START).retryAfter).toBe(1);
    expect(rate.take("a", START + 250).retryAfter).toBeUndefined();
  });

  test("of 0 refuses for the rest of the window", () => {
    const rate = limitOf(1, 0);
    rate.take("a", START);
    expect(rate.take("a", START + 1_000).retryAfter).toBe(59);
    expect(rate.take("a", START + 60_000).retryAfter).toBeUndefined();
  });
});

test("changed settings apply at once", () => {
  const settings = { limit: 3, cooldown: 60 };
  const rate = createRateLimit(
    () => settings.limit,
    () => settings.cooldown,
  );
  rate.take("a", START);
  settings.limit = 1;
  expect(rate.take("a", START)).toEqual({ limit: 1, remaining: 0, endsIn: 60, retryAfter: 60 });
  settings.cooldown = 10;
  expect(rate.take("a", START + 9_000).retryAfter).toBe(1);
  expect(rate.take("a", START + 10_000)).toEqual({ limit: 1, remaining: 0, endsIn: 60 });
});

describe("a clock set back", () => {
  const BACK = START - 86_400_000;
  test("costs one cooldown at most", () => {
    const rate = limitOf(1, 60);
    rate.take("a", START);
    rate.take("a", START);
    expect(rate.take("a", BACK).retryAfter).toBe(60);
    expect(rate.take("a", BACK + 59_000).retryAfter).toBe(1);
    expect(rate.take("a", BACK + 60_000).retryAfter).toBeUndefined();
  });

  test("begins a new window", () => {
    const rate = limitOf(2, 60);
    rate.take("a", START);
    expect(rate.take("a", BACK)).toEqual({ limit: 2, remaining: 1, endsIn: 60 });
  });
});

describe("memory", () => {
  test("is bounded under a flood of names", () => {
    const rate = limitOf(1, 60, 100);
    for (let i = 0; i < 10_000; i++) rate.take(`name ${i}`, START + i);
    expect(rate.size()).toBe(100);
    expect(rate.take("name 9999", START + 10_000).retryAfter).toBe(60);
  });

  test("is freed when a window ends", () => {
    const rate = limitOf(1, 60);
    for (let i = 0; i < 1_000; i++) rate.take(`name ${i}`, START);
    rate.take("later", START + 60_000);
    expect(rate.size()).toBe(1);
  });
});

test("no minute-long window admits more than the limit, and Retry-After is kept", () => {
  const steps = fc.array(fc.record({ wait: fc.nat(40_000) }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 120 }), steps, (limit, cooldown, waits) => {
      const rate = limitOf(limit, cooldown);
      let now = START;
      let mayComeAt = 0;
      let inWindow = 0;
      let windowEnds = 0;
      for (const { wait } of waits) {
        now += wait;
        const { remaining, retryAfter } = rate.take("a", now);
        expect(remaining).toBeGreaterThanOrEqual(0);
        if (retryAfter !== undefined) {
          if (now >= mayComeAt) mayComeAt = now + cooldown * 1000;
          expect(now + retryAfter * 1000).toBeGreaterThanOrEqual(mayComeAt);
          expect(retryAfter).toBeLessThanOrEqual(cooldown);
          windowEnds = 0;
          continue;
        }
        expect(now).toBeGreaterThanOrEqual(mayComeAt);
        if (now >= windowEnds) {
          inWindow = 0;
          windowEnds = now + 60_000;
        }
        expect(++inWindow).toBeLessThanOrEqual(limit);
      }
    }),
  );
});
