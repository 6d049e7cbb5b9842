/** Properties of ids that clients and indexes rely on. */
import { expect, test } from "bun:test";
import { newId } from "../../src/base/runtime.ts";
import { fakeRuntime } from "../harness/runtime.ts";

test("ids are distinct and sort by time", () => {
  const runtime = fakeRuntime();
  const ids = Array.from({ length: 1_000 }, () => {
    runtime.advanceTo(runtime.now() + 1);
    return newId(runtime, "whd");
  });
  for (const id of ids) expect(id).toMatch(/^whd_[0-9a-hjkmnp-tv-z]{22}$/);
  expect([...new Set(ids)].sort()).toEqual(ids);
  expect(newId(runtime, "whd")).not.toBe(newId(runtime, "whd"));
});
