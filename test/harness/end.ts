/**
 * Cleaning up at the end of a test file. The files that a process runs one after another share their modules (test/run.ts), so
 * a hook in a module would run for the first file alone. install.ts, which is loaded before all files, runs these hooks for
 * each.
 */
import { afterAll } from "bun:test";

const ends: (() => unknown)[] = [];

/** Adds a hook, once in a module. `end` runs at the end of every file, maybe twice; hooks of modules loaded earlier run later. */
export function atEndOfFile(end: () => unknown): void {
  ends.unshift(end);
}

export async function endFile(): Promise<void> {
  for (const end of ends) await end();
}

// For files that share nothing, as with `bun test --isolate`, and for the benchmark, which is not a test.
if (process.env.NODE_ENV === "test") afterAll(endFile);
else process.on("exit", () => void endFile());
