/** The memory of this process's children. */
import { readdirSync, readFileSync } from "node:fs";

/** Kilobytes that a line of /proc/PID/status tells; 0 for a process that has ended. */
const kilobytes = (status: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);

function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "latin1");
  } catch {
    return "";
  }
}

/** Bytes of their own that the children of this process have together. */
export function childMemory(): number {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const children = all.map(statusOf).filter((status) => kilobytes(status, "PPid") === process.pid);
  return children.reduce((sum, status) => sum + kilobytes(status, "RssAnon") * 1_024, 0);
}
