/** Entry: the command line on the real process. */
import { run } from "./cli/cli.ts";
import type { Io } from "./cli/session.ts";
import { processEnvironment } from "./config.ts";
import { systemRuntime } from "./runtime.ts";

const io: Io = {
  env: processEnvironment(),
  readStdin: () => Bun.stdin.text(),
  // Resolves once the text is handed over, so that exiting cuts nothing off. A reader that went away is no error.
  writeStdout: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
  writeStderr: (text) => {
    process.stderr.write(text);
  },
  runtime: systemRuntime,
  interrupted: () =>
    new Promise((resolve) => {
      let asked = false;
      for (const signal of ["SIGTERM", "SIGINT"] as const) {
        process.on(signal, () => {
          if (asked) process.exit(1);
          asked = true;
          resolve();
        });
      }
    }),
};

process.stdout.on("error", () => {});
// The timers of the runtime do not keep a process alive; a command that waits on one is not done.
setInterval(() => {}, 60_000);
process.exit(await run(process.argv.slice(2), io));
