import { describe, expect, test } from "bun:test";
import { createSlowdown } from "../../src/access/slowdown.ts";
import { fakeRuntime } from "../harness/runtime.ts";

function setUp() {
  const runtime = fakeRuntime();
  const slowdown = createSlowdown(runtime);
  /** Fails once and returns the ms until the failure is reported. */
  async function fail(...names: string[]): Promise<number> {
    const started = runtime.now();
    const told = slowdown.failed(...names);
    const timer = runtime.nextTimer();
    if (timer !== undefined) runtime.advanceTo(timer);
    await told;
    return runtime.now() - started;
  }
  return { runtime, fail };
}

describe("failed attempts", () => {
  test("are reported at once while they are few, then ever later, up to two seconds", async () => {
    const { fail } = setUp();
    const delays: number[] = [];
    for (let i = 0; i < 28; i++) delays.push(await fail("192.0.2.1"));
    expect(delays).toEqual([...Array<number>(20).fill(0), 100, 200, 400, 800, 1600, 2000, 2000, 2000]);
  });

  test("count per name, and the worst of several counts", async () => {
    const { fail } = setUp();
    for (let i = 0; i < 21; i++) await fail(`192.0.2.${i}`, "olga@example.test");
    expect(await fail("198.51.100.1")).toBe(0);
    expect(await fail("198.51.100.1", "olga@example.test")).toBe(200);
  });

  test("are forgotten after a quiet minute", async () => {
    const { fail, runtime } = setUp();
    for (let i = 0; i < 25; i++) await fail("192.0.2.1");
    runtime.advanceTo(runtime.now() + 60_000);
    expect(await fail("192.0.2.1")).toBe(0);
  });

  test("of very many sources use bounded memory, which keeps the busiest", async () => {
    const { fail } = setUp();
    for (let i = 0; i < 21; i++) await fail("busy");
    for (let i = 0; i < 9_000; i++) await fail(`source ${i}`);
    expect(await fail("busy")).toBe(200);
    for (let i = 0; i < 11_000; i++) await fail(`other ${i}`);
    expect(await fail("busy")).toBe(0);
  });
});
