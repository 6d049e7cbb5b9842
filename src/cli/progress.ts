/** How far a long command is, said on standard error now and then, and whether somebody asked it to stop. */
import type { Session } from "./session.ts";

/** Between two lines. */
const PROGRESS_MS = 2_000;

export interface Progress {
  isInterrupted(): boolean;
  /** Says it, unless something was said just now. */
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
