/** A disk that fails: strace (Debian's) attaches to a process and lets its system calls on files end with EIO. */
import { readdirSync, readFileSync } from "node:fs";
import { atEndOfFile } from "../harness/end.ts";

/** The calls by which data becomes durable; these by which it is written; and those by which files are read. */
export const CALLS = {
  sync: "fsync,fdatasync",
  write: "pwrite64,pwritev,pwritev2,ftruncate,fsync,fdatasync",
  read: "read,readv,pread64,preadv,preadv2,copy_file_range,sendfile",
};

/** The reason why tests that need one are skipped, for their titles. */
export const failingNote = traceable() ? "" : " (skipped: no strace, or no right to trace)";

function traceable(): boolean {
  if (Bun.which("strace") === null) return false;
  return Bun.spawnSync(["strace", "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"]).exitCode === 0;
}

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`)
    .flatMap((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" "))
    .filter(Boolean)
    .map(Number);

const attached = new Set<Bun.Subprocess>();
atEndOfFile(async () => {
  for (const child of attached) child.kill("SIGINT");
  await Promise.all([...attached].map((child) => child.exited));
  attached.clear();
});

/**
 * Lets these system calls of a process and of its children, of all their threads, fail from when it resolves. `paths`: only on
 * these files. The result ends it.
 */
export async function failCalls(
  pid: number,
  calls: string,
  paths: readonly string[] = [],
): Promise<() => Promise<void>> {
  const child = Bun.spawn(
    [
      ...["strace", "-f", "-o", "/dev/null", "-e", `trace=${calls}`, "-e", `inject=${calls}:error=EIO`],
      ...paths.flatMap((path) => ["-P", path]),
      ...[pid, ...childrenOf(pid)].flatMap((one) => ["-p", String(one)]),
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  attached.add(child);
  const reader = child.stderr.getReader();
  let said = "";
  while (!said.includes("attached")) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`strace ended: ${said}`);
    said += Buffer.from(value).toString();
  }
  return async () => {
    child.kill("SIGINT");
    // What it says meanwhile must not fill the pipe.
    while (!(await reader.read()).done);
    await child.exited;
    attached.delete(child);
  };
}
