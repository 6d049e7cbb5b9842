/** How much may be under way at once, of one person and of everybody. */
import { expect, test } from "bun:test";
import { createBudget } from "../../src/api/budget.ts";

test("the budget is also shared by all, and finished requests return theirs", async () => {
  const budget = createBudget({ most: 5, mostOfOne: 3, what: "uploads" });
  const { promise, resolve } = Promise.withResolvers<void>();
  const hold = (person: string, amount: number) =>
    budget.within(person, async (count) => {
      count(amount);
      await promise;
    });
  const held = [hold("a", 3), hold("b", 2)];
  await expect(hold("a", 1)).rejects.toMatchObject({ code: "rate_limited", status: 429, retryAfter: 5 });
  await expect(hold("b", 1)).rejects.toMatchObject({ code: "server_error", status: 503, retryAfter: 5 });
  resolve();
  await Promise.all(held);
  await hold("b", 3);
  await expect(
    budget.within("c", async (count) => {
      count(3);
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  await hold("c", 3);
});
