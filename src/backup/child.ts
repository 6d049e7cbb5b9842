/**
 * A backup in a process of its own, as `mailroom backup` is: SQLite works without yielding, which in the server would
 * stop everything else, and what goes wrong there harms nobody here.
 */
import { setPriority } from "node:os";
import { join } from "node:path";

export interface BackupChild {
  /** Rejects with what it said on stderr. */
  done: Promise<void>;
  /** Ends it; a backup that is interrupted leaves the former ones whole. */
  kill(): void;
}

/** Starts one. `data`: the data folder; the others as in `mailroom backup`. */
export type StartBackup = (what: { data: string; hostname: string; folder: string; keep: number }) => BackupChild;

/** Where the modules of the executable are. */
const EMBEDDED = /^\/\$bunfs\//;
/** Mail comes first. */
const NICENESS = 10;
const LONGEST_REASON = 2_000;

const program = (): string[] =>
  EMBEDDED.test(import.meta.dir) ? [process.execPath] : [process.execPath, join(import.meta.dir, "../main.ts")];

export const startBackup: StartBackup = ({ data, hostname, folder, keep }) => {
  const child = Bun.spawn([...program(), "backup", folder, "--keep", String(keep), "--json"], {
    env: { MAILROOM_DATA: data, MAILROOM_HOSTNAME: hostname },
    stdio: ["ignore", "ignore", "pipe"],
  });
  try {
    setPriority(child.pid, NICENESS);
  } catch {
    // It has ended already, or may not be.
  }
  const said = new Response(child.stderr).text();
  return {
    kill: () => child.kill("SIGKILL"),
    done: (async () => {
      const [text, code] = await Promise.all([said, child.exited]);
      if (code === 0) return;
      const reason = text
        .replaceAll(/^mailroom: /gm, "")
        .trim()
        .slice(-LONGEST_REASON);
      throw new Error(reason || `the backup's process ended with ${child.signalCode ?? code}`);
    })(),
  };
};
