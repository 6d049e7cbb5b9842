/**
 * Loaded before the tests: in a fresh clone, `bun test` first installs what is pinned, as `npm test` does. Bun has by then
 * looked for packages and found none, so a second process runs the tests, all of them. Then what the harness leaves behind
 * is tidied up at the end of each file, and passwords are hashed quickly.
 */
import { afterAll } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "..");

function run(...args: string[]): void {
  const { exitCode } = Bun.spawnSync([process.execPath, ...args], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (exitCode !== 0) process.exit(exitCode);
}

if (!existsSync(join(root, "node_modules"))) {
  run("run", "pinned");
  run("test");
  process.exit(0);
}

afterAll((await import("./harness/end.ts")).endFile);
(await import("./harness/quick-hash.ts")).hashQuickly();
