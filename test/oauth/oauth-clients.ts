/** Programs that open a URL in the browser, and wait for what leads back to them. */
import { expect } from "bun:test";
import { temporaryFolder } from "../harness/folder.ts";
import type { OAuthWorld } from "../harness/servers/oauth.ts";

/** Starts a program with a home of its own and without a browser. `said`: all that it wrote so far. */
export function startClient(command: string[], env: Record<string, string> = {}) {
  const home = temporaryFolder();
  const child = Bun.spawn(command, {
    cwd: home,
    env: { PATH: process.env.PATH ?? "", HOME: home, NO_COLOR: "1", BROWSER: "true", ...env },
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  let text = "";
  const seen: { wanted: RegExp; found: (match: RegExpExecArray) => void }[] = [];
  async function read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const part of stream) {
      text = Bun.stripANSI(text + decoder.decode(part, { stream: true }));
      for (const { wanted, found } of seen) {
        const match = wanted.exec(text);
        if (match) found(match);
      }
    }
  }
  const ended = Promise.all([read(child.stdout), read(child.stderr), child.exited]);
  return {
    child,
    home,
    said: () => text,
    /** Resolves with what the program writes; rejects if it ends without. */
    saying: (wanted: RegExp) =>
      new Promise<RegExpExecArray>((resolve, reject) => {
        const match = wanted.exec(text);
        if (match) return resolve(match);
        seen.push({ wanted, found: resolve });
        ended.then(() => reject(new Error(`it ended without ${wanted}:\n${text}`)), reject);
      }),
    ended: ended.then(() => text),
  };
}

/** A person lets the program in that opened the URL, which gets the answer where it asked for it. */
export async function letIn(world: OAuthWorld, url: string): Promise<void> {
  const back = await world.approve(new URL(url).search.slice(1));
  expect(back.hostname).toMatch(/^(localhost|127\.0\.0\.1)$/);
  await fetch(back);
}
