/** The memory of this process's children. */
import { readdirSync, readFileSync } from "node:fs";

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    // It has ended.
    return "";
  }
}

/** Bytes of their own that the children of this process have together. */
export function childMemory(): number {
  const children = readdirSync("/proc/self/task").flatMap((task) =>
    read(`/proc/self/task/${task}/children`).split(" ").filter(Boolean),
  );
  const kilobytes = children.map((pid) => Number(/^RssAnon:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0));
  return kilobytes.reduce((sum, one) => sum + one * 1_024, 0);
}
