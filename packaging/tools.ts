/** Runs the programs that make a release. When one fails, the error has its output. */

/** Runs a command. Resolves with its stdout, without the final line end. @throws Error with its output */
export async function outputOf(folder: string, ...command: string[]): Promise<string> {
  // The local time zone and language must not get into a release.
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
  const child = Bun.spawn(command, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const code = await child.exited;
  if (code !== 0) throw new Error(`${command.slice(0, 3).join(" ")} ended with ${code}: ${stderr || stdout}`);
  return stdout.trimEnd();
}

/** Runs a command. @throws Error with its output */
export async function runCommand(folder: string, ...command: string[]): Promise<void> {
  await outputOf(folder, ...command);
}
