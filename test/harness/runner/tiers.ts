/** The tiers of the tests. The name of a file shows its tier. */

export const TIERS = ["fast", "system", "long"] as const;
/**
 * - `fast`: typical cases, in one process, with npm alone: `X.test.ts`
 * - `system`: starts programs or a browser: `X.system.test.ts`, `X.browser.test.ts`; or takes many seconds with npm alone, since it
 *   plays days of whole servers, takes the largest sizes, or tries inputs by the thousand: `X.thorough.test.ts`
 * - `long`: takes minutes of CPU time, or large inputs: `X.long.test.ts`
 */
export type Tier = (typeof TIERS)[number];

export function tierOf(file: string): Tier {
  if (file.endsWith(".long.test.ts")) return "long";
  return /\.(system|browser|thorough)\.test\.ts$/.test(file) ? "system" : "fast";
}

/** Lists the test files of these tiers, as paths from the root of the project. */
export function testFiles(root: string, tiers: readonly Tier[]): string[] {
  const files = [...new Bun.Glob("test/**/*.test.ts").scanSync(root)].sort();
  return files.filter((file) => tiers.includes(tierOf(file)));
}
