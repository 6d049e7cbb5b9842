/** Programs of the system: their presence, and running them. */

/** Runs a program with `input` on its standard input. */
export async function run(command: string[], input = ""): Promise<{ exitCode: number; output: string }> {
  const child = Bun.spawn(command, { stdin: Buffer.from(input), stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { exitCode: await child.exited, output: stdout + stderr };
}

export const installed = (program: string) => {
  const path = Bun.which(program);
  return { path: path ?? program, absent: path === null, named: `${program}${path ? "" : " (not installed)"}` };
};
