/** Memory that the children of this process take of the machine. */
import { readdirSync, readFileSync } from "node:fs";

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    // It has ended.
    return "";
  }
}

const children = (): string[] =>
  readdirSync("/proc/self/task").flatMap((task) => read(`/proc/self/task/${task}/children`).split(" ").filter(Boolean));

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

/** Bytes of their own that the children of this process have together. */
export const childMemory = (): number =>
  1_024 * sum(children().map((pid) => Number(/^RssAnon:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0)));

/** Ms of CPU that they have taken. The kernel counts in hundredths of a second. */
export function childCpu(): number {
  // User and system time (proc(5)), counted behind the name, which may have spaces.
  const times = children().flatMap((pid) => read(`/proc/${pid}/stat`).split(") ")[1]?.split(" ").slice(11, 13) ?? []);
  return 10 * sum(times.map(Number));
}
