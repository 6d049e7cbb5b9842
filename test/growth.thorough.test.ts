/** The measure of CPU time tells what is linear from what is not. */
import { expect, test } from "bun:test";
import { cpuTime, expectLinear } from "./harness/growth.ts";

test("CPU time tells the same of what counts no steps", async () => {
  const count = (steps: number) =>
    cpuTime(() => {
      let sum = 0;
      for (let step = 0; step < steps; step++) sum += Math.sqrt(step);
      return sum;
    });
  await expectLinear({ make: (size) => size, work: count, sizes: [1_000_000, 4_000_000], atMost: 2.5 });
  await expect(
    expectLinear({ make: (size) => size, work: (size) => count(size * size), sizes: [1_000, 4_000], atMost: 2.5 }),
  ).rejects.toThrow("times a doubling");
}, 60_000);
