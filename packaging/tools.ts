/** The programs that a release is made with: run to their end, with what they said in the error when they fail. */

/** What it wrote on stdout, without the line's end. @throws Error with what it said */
export async function told(folder: string, ...command: string[]): Promise<string> {
  // A time zone or language of whoever makes the release must not get into it.
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
  const child = Bun.spawn(command, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const code = await child.exited;
  if (code !== 0) throw new Error(`${command.slice(0, 3).join(" ")} ended with ${code}: ${stderr || stdout}`);
  return stdout.trimEnd();
}

/** @throws Error with what it said */
export async function tell(folder: string, ...command: string[]): Promise<void> {
  await told(folder, ...command);
}
