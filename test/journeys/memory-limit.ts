/**
 * Limits the memory of programs to that of a small machine, with a control group of the system, version 1 or 2. When the group
 * takes more, the kernel first takes memory back from its cache of files; then it kills one of its processes.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, statfsSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { atEndOfFile } from "../harness/end.ts";
import type { Program } from "../harness/servers/process.ts";

export interface MemoryLimit {
  /** The program, started under the limit. */
  within(program: Program): Program;
  /** Number of processes that the kernel has killed for lack of memory. */
  kills(): number;
  /** Bytes that the processes have in use without the cache of files, which the kernel can take back. */
  used(): number;
}

const MOUNT = "/sys/fs/cgroup";
const groups: string[] = [];
let count = 0;

const read = (group: string, file: string): string => readFileSync(join(group, file), "utf8");
const figure = (text: string, name: string): number => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);

/** The folder below which groups are made: of version 1 our own, of version 2 the outermost, since only leaves have processes. */
function parent(): string {
  const own = /^\d+:memory:(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
  if (own === undefined) return MOUNT;
  const inside = join(MOUNT, "memory", own);
  return existsSync(inside) ? inside : join(MOUNT, "memory");
}

/** @throws system errors where no group can be made */
export function limitMemory(bytes: number): MemoryLimit {
  const group = join(parent(), `mailroom-test-${process.pid}-${++count}`);
  mkdirSync(group);
  groups.push(group);
  const isVersion1 = existsSync(join(group, "memory.limit_in_bytes"));
  const set = (file: string, value: number) => writeFileSync(join(group, file), String(value));
  set(isVersion1 ? "memory.limit_in_bytes" : "memory.max", bytes);
  // Memory and swap together, or swap alone; a kernel without swap lacks both.
  const swap = isVersion1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max";
  if (existsSync(join(group, swap))) set(swap, isVersion1 ? bytes : 0);
  return {
    within: (program) => ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', join(group, "cgroup.procs"), ...program],
    kills: () => figure(read(group, isVersion1 ? "memory.oom_control" : "memory.events"), "oom_kill"),
    used: () => figure(read(group, "memory.stat"), isVersion1 ? "total_rss" : "anon"),
  };
}

const MOST_TRIES = 20;

/** The processes in them have been killed by now, but may not have ended. */
async function removeGroups(): Promise<void> {
  for (const group of groups.splice(0)) {
    for (let tries = 0; ; tries++) {
      try {
        rmdirSync(group);
        break;
      } catch (error) {
        if (tries === MOST_TRIES) throw error;
        await Bun.sleep(100);
      }
    }
  }
}
atEndOfFile(removeGroups);

/** A folder on a disk: files in memory, as /tmp may have, would count as memory in use. */
const ON_DISK = "/var/tmp";
const TMPFS = 0x01021994;

/** Makes a folder on a disk, which is removed when the test file ends. */
export async function folderOnDisk(): Promise<string> {
  const folder = await mkdtemp(join(ON_DISK, "mailroom-"));
  folders.push(folder);
  return folder;
}
const folders: string[] = [];
atEndOfFile(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

/** The reason why tests that need a limit are skipped, for their titles. */
export const limitNote = await whyNot();

async function whyNot(): Promise<string> {
  try {
    if (statfsSync(ON_DISK).type === TMPFS) return ` (skipped: ${ON_DISK} is in memory)`;
    limitMemory(64 * 1024 * 1024).used();
    await removeGroups();
    return "";
  } catch {
    return " (skipped: no right to limit memory with a control group)";
  }
}
