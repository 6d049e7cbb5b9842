/** Ids: what clients and indexes rely on. */
import { expect, test } from "bun:test";
import { newId, newIds } from "../src/runtime.ts";
import { fakeRuntime } from "./harness/runtime.ts";

test("ids made together are as those made one by one, distinct, and in the order of an index", () => {
  const runtime = fakeRuntime();
  const before = newId(runtime, "whd");
  runtime.advanceTo(runtime.now() + 1);
  const ids = newIds(runtime, "whd", 1_000);
  runtime.advanceTo(runtime.now() + 1);
  const all = [before, ...ids, newId(runtime, "whd")];
  for (const id of all) expect(id).toMatch(/^whd_[0-9a-hjkmnp-tv-z]{22}$/);
  expect(new Set(all).size).toBe(1_002);
  expect([...all].sort()).toEqual(all);
});
