import { describe, expect, test } from "bun:test";
import { atMost, pause } from "../../src/base/pause.ts";
import { fakeRuntime } from "../harness/runtime.ts";

describe("at most so long", () => {
  test("what comes in time is given, and no timer is left", async () => {
    const runtime = fakeRuntime();
    expect(await atMost(runtime, 1_000, Promise.resolve("here"))).toBe("here");
    await expect(atMost(runtime, 1_000, Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(runtime.nextTimer()).toBeUndefined();
  });

  test("what comes late is not waited for, and may fail then", async () => {
    const runtime = fakeRuntime();
    const { promise, reject } = Promise.withResolvers<string>();
    const waited = atMost(runtime, 1_000, promise);
    runtime.advanceTo(runtime.now() + 1_000);
    expect(await waited).toBeUndefined();
    reject(new Error("late"));
    await expect(promise).rejects.toThrow("late");
  });
});

describe("a pause", () => {
  test("lasts as long as it is to", async () => {
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

  test("is cut short by its signal, also by one aborted before", async () => {
    const runtime = fakeRuntime();
    const over = new AbortController();
    const paused = pause(runtime, 1_000, over.signal);
    over.abort();
    await paused;
    await pause(runtime, 1_000, over.signal);
    expect(runtime.nextTimer()).toBeUndefined();
  });
});
