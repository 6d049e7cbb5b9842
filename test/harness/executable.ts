/** The executable, as `npm run build` makes it. */
import { join } from "node:path";

/** Where test/run.ts says that it has built it for the whole run. */
const VARIABLE = "MAILROOM_TEST_EXECUTABLE";
export const builtExecutable = process.env[VARIABLE];

/** Builds it at that path. @throws what the build said when it failed */
export async function buildExecutable(outfile: string): Promise<string> {
  const child = Bun.spawn([process.execPath, "run", "--silent", "build", `--outfile=${outfile}`], {
    cwd: join(import.meta.dir, "../.."),
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stderr = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`the build failed: ${stderr}`);
  return outfile;
}

/** The environment that tells tests of it. */
export const withExecutable = (path: string): NodeJS.ProcessEnv => ({ ...process.env, [VARIABLE]: path });
