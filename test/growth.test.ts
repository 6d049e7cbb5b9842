/** The measure of growth tells what is linear from what is not. */
import { expect, test } from "bun:test";
import { expectLinear } from "./harness/growth.ts";

const sizes = [100, 200, 400];
const make = (size: number) => "x".repeat(size);

test("work that grows with its input passes, the square of it does not", async () => {
  await expectLinear({ make, sizes, steps: ({ length }) => 5 * length + 30 });
  await expect(expectLinear({ make, sizes, steps: ({ length }) => length * length })).rejects.toThrow(
    '4.00 times a doubling: [{"size":100,"work":10000}',
  );
});

test("what counts nothing, or doubles nothing, proves nothing", async () => {
  await expect(expectLinear({ make, sizes, steps: () => 0 })).rejects.toThrow("no work was counted");
  await expect(expectLinear({ make, sizes: [100, 150], steps: ({ length }) => length })).rejects.toThrow("double");
});
