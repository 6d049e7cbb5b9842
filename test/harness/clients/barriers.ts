/** Accessibility barriers of a page, found by axe. */
import axe from "axe-core";
import type { Page } from "playwright-core";

interface Found {
  id: string;
  impact: string;
  nodes: { html: string; any: { data?: { messageKey?: string } | null }[] }[];
}

async function examine(page: Page): Promise<{ violations: Found[]; incomplete: Found[] }> {
  // The script is large, so a document gets it once.
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source);
  return (await page.evaluate("axe.run({ resultTypes: ['violations', 'incomplete'] })")) as never;
}

/** Finds the barriers that axe calls serious or critical. */
export async function barriers(page: Page): Promise<string[]> {
  const { violations } = await examine(page);
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** Finds the texts whose contrast axe cannot tell, because something lies over them. */
export async function covered(page: Page): Promise<string[]> {
  const { incomplete } = await examine(page);
  return incomplete
    .filter(({ id }) => id === "color-contrast")
    .flatMap(({ nodes }) => nodes)
    .filter(({ any }) => any.some(({ data }) => data?.messageKey === "bgOverlap"))
    .map(({ html }) => html);
}
