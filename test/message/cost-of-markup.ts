/** Expectations of the cost of HTML that is hard to read. */
import { expect } from "bun:test";
import { createHtmlBudget } from "../../src/message/markup.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { visibleHtml, visibleTextForModel } from "../../src/message/visible.ts";
import { expectLinear } from "../harness/growth.ts";

/** Expects that finding what is visible, and cleaning, take steps in proportion to the size. */
export async function expectLinearSteps(make: (size: number) => string, sizes: readonly number[]): Promise<void> {
  const stepsOf = (run: (html: string, budget: ReturnType<typeof createHtmlBudget>) => unknown) => (html: string) => {
    const budget = createHtmlBudget(Number.POSITIVE_INFINITY);
    run(html, budget);
    return budget.spent;
  };
  await expectLinear({ make, steps: stepsOf(visibleHtml), sizes });
  await expectLinear({ make, steps: stepsOf((html, budget) => sanitizeHtml(html, budget)), sizes });
  await expectLinear({ make, steps: stepsOf((html, budget) => sanitizeHtml(html, budget, "recipient")), sizes });
}

/** Expects that HTML with the word "secret" takes more than its budget: people see it as text, and models see none of it. */
export function expectShownAsText(html: string): void {
  const budget = createHtmlBudget();
  const { html: visible, hidden } = visibleHtml(html, budget);
  expect(visible).toBe("");
  expect(hidden).toBeGreaterThan(1_000);
  expect(sanitizeHtml(html, budget)).toStartWith('<div style="white-space:pre-wrap">');
  expect(sanitizeHtml(html, budget)).toContain("secret");
  expect(visibleTextForModel("secret", html)).toEqual({ text: "", hidden, fromHtml: true });
}
