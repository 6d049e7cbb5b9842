import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { atEndOfFile } from "./end.ts";

/** Makes an empty folder that is removed when the test file ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-"));
  made.push(folder);
  return folder;
}

const made: string[] = [];
atEndOfFile(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});
