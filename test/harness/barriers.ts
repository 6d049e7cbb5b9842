/** Accessibility barriers of a page, found by axe. */
import axe from "axe-core";
import type { Page } from "playwright-core";

/** Finds the barriers that axe calls serious or critical. */
export async function barriers(page: Page): Promise<string[]> {
  // The script is large, so a document gets it once.
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source);
  const { violations } = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[];
  };
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}
