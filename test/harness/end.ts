/**
 * What is tidied up at the end of a test file. The files that a process runs one after another share their modules
 * (test/run.ts), so that a hook of a module alone would run for the first of them only: install.ts, loaded before all
 * files, runs these for each.
 */
import { afterAll } from "bun:test";

const ends: (() => unknown)[] = [];

/** Called once a module; `end` runs at the end of every file, maybe twice, before that of modules which were there first. */
export function atEndOfFile(end: () => unknown): void {
  ends.unshift(end);
}

export async function endFile(): Promise<void> {
  for (const end of ends) await end();
}

// For files that share nothing, as with `bun test --isolate`; and for the benchmark, which is no test.
if (process.env.NODE_ENV === "test") afterAll(endFile);
else process.on("exit", () => void endFile());
