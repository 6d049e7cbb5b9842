/** What keeps people from using a page, as axe finds it. */
import axe from "axe-core";
import type { Page } from "playwright-core";

/** What axe calls serious or worse, of the page as it is. */
export async function barriers(page: Page): Promise<string[]> {
  // Once a document: it is large.
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source);
  const { violations } = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[];
  };
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}
