/** The executable that `npm run build` makes. */
import { join } from "node:path";

/** The path where test/run.ts has built it for the whole run. */
const VARIABLE = "MAILROOM_TEST_EXECUTABLE";
export const builtExecutable = process.env[VARIABLE];

/** Builds it at a path, from this project or another one. @throws Error with the output of a failed build */
export async function buildExecutable(outfile: string, project = join(import.meta.dir, "../../..")): Promise<string> {
  const child = Bun.spawn([process.execPath, "run", "--silent", "build", `--outfile=${outfile}`], {
    cwd: project,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stderr = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`the build failed: ${stderr}`);
  return outfile;
}

/** The environment that tells tests its path. */
export const withExecutable = (path: string): NodeJS.ProcessEnv => ({ ...process.env, [VARIABLE]: path });
