/** The process as the command line sees it: its streams, signals and environment. */

import { systemRuntime } from "../base/runtime.ts";
import { processEnvironment } from "../config.ts";
import type { Io } from "./session.ts";

/** Resolves at the first SIGTERM or SIGINT; the second does not wait for anything. */
function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        if (asked) process.exit(1);
        asked = true;
        resolve();
      });
    }
  });
}

export function processIo(): Io {
  // A reader that went away is no error.
  process.stdout.on("error", () => {});
  // The timers of the runtime do not keep a process alive; a command that waits on one is not done.
  setInterval(() => {}, 60_000);
  return {
    env: processEnvironment(),
    readStdin: () => Bun.stdin.text(),
    // Resolves once the text is handed over, so that exiting cuts nothing off.
    writeStdout: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
    writeStderr: (text) => {
      process.stderr.write(text);
    },
    runtime: systemRuntime,
    interrupted,
  };
}
