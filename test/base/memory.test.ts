import { expect, test } from "bun:test";
import { totalmem } from "node:os";
import { createMemoryRoom, LARGE_BYTES, memoryLimit } from "../../src/base/memory.ts";
import { letOthersRun } from "../../src/base/pause.ts";

const MB = 1024 * 1024;

test("the limit is at most what the machine has", () => {
  expect(memoryLimit()).toBeGreaterThan(64 * MB);
  expect(memoryLimit()).toBeLessThanOrEqual(totalmem());
});

test("a room lets large messages in while they fit, in order, one of any size alone, and small ones at once", async () => {
  const room = createMemoryRoom(20 * MB);
  const inside = new Map<string, () => void>();
  const enter = (name: string, bytes: number) => void room.enter(bytes).then((leave) => inside.set(name, leave));
  async function leave(name: string): Promise<void> {
    inside.get(name)?.();
    inside.delete(name);
    await letOthersRun();
  }
  const names = () => [...inside.keys()].sort();
  enter("a", 12 * MB);
  enter("b", 8 * MB);
  enter("huge", 30 * MB);
  enter("c", 5 * MB);
  enter("small", LARGE_BYTES);
  await letOthersRun();
  expect(names()).toEqual(["a", "b", "small"]);
  await leave("small");
  await leave("a");
  expect(names()).toEqual(["b"]);
  await leave("b");
  expect(names()).toEqual(["huge"]);
  await leave("huge");
  expect(names()).toEqual(["c"]);
});
