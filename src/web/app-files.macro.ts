/**
 * Runs while app-files.ts is compiled: when the program starts from source, and once when the executable is built. So the
 * app is inside the executable, and there is no build step to forget.
 */
import { join } from "node:path";

export function bundledApp(): { script: string; style: string } {
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, join(import.meta.dir, "bundle-app.ts")]);
  if (exitCode !== 0) throw new Error(`the browser app cannot be bundled: ${stderr}`);
  return JSON.parse(stdout.toString());
}
