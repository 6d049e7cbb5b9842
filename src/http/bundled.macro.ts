/**
 * A macro that bundles browser code while app-files.ts, pdf-files.ts and reference-files.ts are compiled: at each start
 * from source, and once when the executable is built. So the executable contains the pages, without a build step of its
 * own.
 */
import { join } from "node:path";
import type { Bundle } from "./bundle.ts";

/** `entry`: a file below src. */
export function bundleBrowserCode(entry: string): Bundle {
  const bundle = join(import.meta.dir, "bundle.ts");
  const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, bundle, entry]);
  if (exitCode !== 0) throw new Error(`${entry} cannot be bundled: ${stderr}`);
  return JSON.parse(stdout.toString());
}
