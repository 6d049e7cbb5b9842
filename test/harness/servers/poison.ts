/** Messages at which parsers of tests hang or die. */
import type { ToParser } from "../../../src/workers/jobs.ts";

const POISONS = ["hang", "exit", "throw", "always"] as const;
type Poison = (typeof POISONS)[number];

/** How a parser ends at this task, by the message's X-Poison. "always" and "throw" act on every task, the others on parsing. */
export function poisonOf(data: ToParser): Poison | undefined {
  const source = "source" in data ? data.source : undefined;
  const text = source instanceof Uint8Array ? Buffer.from(source).toString("latin1") : "";
  const poison = POISONS.find((one) => text.includes(`X-Poison: ${one}`));
  const isParsed = !("shownFrom" in data);
  return isParsed || poison === "always" || poison === "throw" ? poison : undefined;
}

/** Hangs or dies. */
export function obeyPoison(poison: Poison | undefined): void {
  if (poison === "hang") for (;;);
  if (poison === "exit" || poison === "always") process.exit(3);
  if (poison === "throw") throw new Error("thrown outside of any promise");
}
