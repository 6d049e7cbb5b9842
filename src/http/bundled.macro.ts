/**
 * Runs while app-files.ts and reference-files.ts are compiled: when the program starts from source, and once when the
 * executable is built. So what browsers run is inside the executable, and there is no build step to forget.
 */
import { join } from "node:path";
import type { Bundle } from "./bundle.ts";

/** `entry`: a file below src. */
export function bundled(entry: string): Bundle {
  const bundle = join(import.meta.dir, "bundle.ts");
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, bundle, entry]);
  if (exitCode !== 0) throw new Error(`${entry} cannot be bundled: ${stderr}`);
  return JSON.parse(stdout.toString());
}
