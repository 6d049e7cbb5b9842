import { describe, expect, test } from "bun:test";
import { awaitAtMost, pause } from "../../src/base/pause.ts";
import { fakeRuntime } from "../harness/runtime.ts";

describe("atMost", () => {
  test("gives a result that comes in time, and leaves no timer", async () => {
    const runtime = fakeRuntime();
    expect(await awaitAtMost(runtime, 1_000, Promise.resolve("here"))).toBe("here");
    await expect(awaitAtMost(runtime, 1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test("does not wait for a late result, which may then fail", async () => {
    const runtime = fakeRuntime();
    const { promise, reject } = Promise.withResolvers<string>();
    const waited = awaitAtMost(runtime, 1_000, promise);
    runtime.advanceTo(runtime.now() + 1_000);
    expect(await waited).toBeUndefined();
    reject(new Error("late"));
    await expect(promise).rejects.toThrow("late");
  });
});

describe("a pause", () => {
  test("lasts for the given time", async () => {
    const runtime = fakeRuntime();
    let over = false;
    const paused = pause(runtime, 1_000).then(() => {
      over = true;
    });
    runtime.advanceTo(runtime.now() + 999);
    await Promise.resolve();
    expect(over).toBe(false);
    runtime.advanceTo(runtime.now() + 1);
    await paused;
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test("ends when its signal is aborted, at once if it was before", async () => {
    const runtime = fakeRuntime();
    const over = new AbortController();
    const paused = pause(runtime, 1_000, over.signal);
    over.abort();
    await paused;
    await pause(runtime, 1_000, over.signal);
    expect(runtime.nextTimer()).toBeUndefined();
  });
});
