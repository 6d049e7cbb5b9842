import { expect, test } from "bun:test";
import { createIndexUpkeep } from "../../src/search/upkeep.ts";

test("pauses while much is written, however few commits share it, and continues when it is quiet", async () => {
  let told: (works: number) => void = () => {};
  let steps = 0;
  const job = createIndexUpkeep(
    {
      onCommit(listener) {
        told = listener;
        return () => {};
      },
    },
    { maintain: () => ++steps < 3 } as Parameters<typeof createIndexUpkeep>[1],
  );
  told(50);
  expect(await job.runDue(1_000)).toBe(2_000);
  expect(steps).toBe(0);
  told(5);
  expect(await job.runDue(2_000)).toBe(2_050);
  expect(steps).toBe(1);
  expect(await job.runDue(2_050)).toBe(2_100);
  expect(await job.runDue(2_100)).toBe(12_100);
});
