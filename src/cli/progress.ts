/** Progress lines of long commands on stderr, and their interruption. */
import type { Session } from "./session.ts";

/** Time between two lines. */
const PROGRESS_MS = 2_000;

export interface Progress {
  /** True after SIGTERM or SIGINT. */
  isInterrupted(): boolean;
  /** Writes the line, unless one was written just now. */
  tell(line: () => string): void;
}

export function watchProgress({ io, runtime }: Pick<Session, "io" | "runtime">): Progress {
  let interrupted = false;
  void io.interrupted().then(() => {
    interrupted = true;
  });
  let toldAt = runtime.now();
  return {
    isInterrupted: () => interrupted,
    tell(line) {
      const now = runtime.now();
      if (now - toldAt < PROGRESS_MS) return;
      toldAt = now;
      io.writeStderr(`${line()}\n`);
    },
  };
}
