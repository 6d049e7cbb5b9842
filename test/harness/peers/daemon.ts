/** Servers of other projects that start processes of their own. */
import { atEndOfFile } from "../end.ts";
import { isListening } from "../port.ts";
import { until } from "../until.ts";

export interface Daemon {
  /** The parent of all its processes. */
  pid: number;
  /** Resolves when all have ended. */
  end(): Promise<void>;
}

const running = new Set<Daemon>();
atEndOfFile(() => Promise.all([...running].map((daemon) => daemon.end())));

/** Runs a command until the test file ends. Resolves when it listens on the port. @throws Error when it ends before */
export async function startDaemon(command: string[], port: number): Promise<Daemon> {
  const child = Bun.spawn(command, {
    env: { PATH: `${process.env.PATH}:/usr/sbin` },
    stdio: ["ignore", "ignore", "inherit"],
    // A process group of its own.
    detached: true,
  });
  const daemon = {
    pid: child.pid,
    async end() {
      running.delete(daemon);
      child.kill("SIGTERM");
      await child.exited;
      try {
        // Processes that finish their work first, such as Dovecot's indexer.
        process.kill(-child.pid, "SIGKILL");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    },
  };
  running.add(daemon);
  await until(() => {
    if (child.exitCode !== null) throw new Error(`${command[0]} ended with ${child.exitCode}`);
    return isListening(port);
  });
  return daemon;
}
