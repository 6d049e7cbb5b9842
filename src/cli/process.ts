/** The real process behind the command line: streams, signals and environment. */

import { systemRuntime } from "../base/runtime.ts";
import { processEnvironment } from "../config.ts";
import type { Io } from "./session.ts";

/** Resolves at the first SIGTERM or SIGINT; the second ends the process at once. */
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
  // A reader may close the pipe.
  process.stdout.on("error", () => {});
  // The runtime's timers do not keep the process alive while a command waits on one; this interval does.
  setInterval(() => {}, 60_000);
  return {
    env: processEnvironment(),
    readStdin: () => Bun.stdin.text(),
    // Resolves once the system has the text, so that exiting cuts nothing off.
    writeStdout: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
    writeStderr: (text) => {
      process.stderr.write(text);
    },
    runtime: systemRuntime,
    interrupted,
  };
}
