/** Runs a command of the operator that prints an access token, such as oauth2l or a script. The token is never logged. */

/** Characters of a token. */
const LONGEST = 16 * 1024;
const PATIENCE_MS = 60_000;
const TOKEN = /^[!-~]+$/;

/** The first line that the command prints, which `/bin/sh` runs. @throws Error that says how it failed, without its output */
export async function readTokenFromCommand(
  command: string,
  { setTimer }: { setTimer(wake: () => void, ms: number): () => void },
): Promise<string> {
  const child = Bun.spawn(["/bin/sh", "-c", command], { stdio: ["ignore", "pipe", "inherit"] });
  // What the command started may have its output, also when the command itself is gone.
  const late = new AbortController();
  const cancel = setTimer(() => late.abort(new Error("--token-command did not end within a minute")), PATIENCE_MS);
  let output = "";
  try {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream(), { signal: late.signal })) {
      output += chunk;
      if (output.length > LONGEST) break;
    }
    if (output.length > LONGEST) throw new Error("--token-command printed too much: it is to print a token alone");
    const code = await child.exited;
    if (code !== 0) throw new Error(`--token-command failed (${child.signalCode ?? `exit ${code}`})`);
  } finally {
    cancel();
    child.kill("SIGKILL");
  }
  const [token = ""] = output.split(/\r?\n/);
  if (!TOKEN.test(token)) throw new Error("--token-command printed no token: it is to print a token on a line");
  return token;
}
