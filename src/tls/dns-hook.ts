/**
 * Changes DNS records by a program of the operator, called as `PROGRAM present|cleanup NAME. VALUE`. Programs for lego's
 * `exec` provider work unchanged.
 *
 * Invariant: the program's output is discarded, since it may contain secrets. The program and its children end within the
 * time limit.
 */
import type { Runtime } from "../base/runtime.ts";

/** Names without a final dot; other records of the same name stay. */
export interface DnsHook {
  /** @throws Error for people */
  present(name: string, value: string): Promise<void>;
  /** Removes a record, if it exists. @throws Error for people */
  cleanup(name: string, value: string): Promise<void>;
  /** Ends the calls under way. */
  stop(): void;
}

const LONGEST_MS = 2 * 60_000;

export function openDnsHook(program: string, runtime: Pick<Runtime, "setTimer">): DnsHook {
  const running = new Set<() => void>();

  async function call(action: "present" | "cleanup", name: string, value: string): Promise<void> {
    // A process group of its own, so that its children end with it.
    const child = Bun.spawn([program, action, `${name}.`, value], {
      ...{ cwd: "/", detached: true },
      stdio: ["ignore", "ignore", "ignore"],
    });
    let isLate = false;
    const end = () => killGroup(child.pid);
    running.add(end);
    const cancelTimer = runtime.setTimer(() => {
      isLate = true;
      end();
    }, LONGEST_MS);
    const status = await child.exited;
    cancelTimer();
    running.delete(end);
    const problem = isLate
      ? `did not end within ${LONGEST_MS / 1_000} s`
      : status === 0
        ? undefined
        : `ended with ${child.signalCode ?? `status ${status}`}`;
    if (problem !== undefined) throw new Error(`${program} ${action} ${name}. ${problem}`);
  }

  return {
    present: (name, value) => call("present", name, value),
    cleanup: (name, value) => call("cleanup", name, value),
    stop() {
      for (const end of running) end();
    },
  };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}
