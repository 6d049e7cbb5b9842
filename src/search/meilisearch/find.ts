/** Which Meilisearch executable is run, and which version it is. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Runtime } from "../../base/runtime.ts";

export interface Executable {
  path: string;
  /** As it says itself: `1.21.0`. */
  version: string;
}

/** How long it may take to say its version, ms. */
const PATIENCE_MS = 10_000;
const LONGEST_QUOTE = 200;

/**
 * The path of the executable: what the setting names, and then nothing else; without it (`auto`), that in the data folder,
 * else the one in PATH. @throws Error that names the places when there is none
 */
function locateExecutable(setting: string, data: string): string {
  if (setting !== "auto") {
    if (existsSync(setting)) return setting;
    throw new Error(`search.meilisearchPath names ${setting}, which is not there`);
  }
  const own = resolve(data, "bin/meilisearch");
  const found = existsSync(own) ? own : Bun.which("meilisearch");
  if (found) return found;
  throw new Error(`there is no Meilisearch: search.meilisearchPath names none, there is no ${own}, and none in PATH`);
}

/**
 * Finds it and asks its version; given up when `signal` is aborted. @throws Error saying why it cannot be run, or that it
 * is no Meilisearch
 */
export async function findExecutable(
  setting: string,
  data: string,
  { setTimer }: Pick<Runtime, "setTimer">,
  signal: AbortSignal,
): Promise<Executable> {
  const path = locateExecutable(setting, data);
  let asked: Bun.Subprocess<"ignore", "pipe", "ignore">;
  try {
    asked = Bun.spawn([path, "--version"], { env: {}, signal, stdio: ["ignore", "pipe", "ignore"] });
  } catch (error) {
    throw new Error(
      `${path} cannot be run here (${(error as Error).message}): is it executable, and for this machine?`,
    );
  }
  const cancel = setTimer(() => asked.kill("SIGKILL"), PATIENCE_MS);
  let said = "";
  for await (const chunk of asked.stdout.pipeThrough(new TextDecoderStream())) {
    said += chunk;
    if (said.length > LONGEST_QUOTE) asked.kill("SIGKILL");
  }
  const code = await asked.exited;
  cancel();
  said = said.replaceAll(/\s+/g, " ").trim();
  const [, version] = /^meilisearch (\d+\.\d+\.\d+\S*)$/.exec(said) ?? [];
  if (code === 0 && version !== undefined) return { path, version };
  const answer = said === "" ? "nothing" : `"${said.slice(0, LONGEST_QUOTE)}"`;
  throw new Error(
    `${path} is no Meilisearch: asked its version, it said ${answer} (${asked.signalCode ?? `exit ${code}`})`,
  );
}
