/** Loaded before the tests: in a fresh clone, `bun test` installs what is pinned first, as `npm test` does. */
import { existsSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "..");
if (!existsSync(join(root, "node_modules"))) {
  const { exitCode } = Bun.spawnSync([process.execPath, "run", "pinned"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (exitCode !== 0) process.exit(exitCode);
}
