/** Behaviour of Bun with processes and files on which the product stands (docs/platform.md). */
import { expect, test } from "bun:test";
import { copyFileSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";

const isLinux = process.platform === "linux";

/** Runs a script in a process of its own. `before`: lines of shell before it. Resolves with its output, parsed. */
async function ask<T>(script: string, before = ""): Promise<T> {
  const file = join(temporaryFolder(), "script.mjs");
  writeFileSync(file, script);
  const child = Bun.spawn(["sh", "-c", `${before}\nexec "$@"`, "sh", process.execPath, file], { stdout: "pipe" });
  return JSON.parse(await new Response(child.stdout).text()) as T;
}

test.skipIf(!isLinux)("a child has no descriptor of its parent's but its three, and the usual signals", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  openSync(import.meta.path, "r");
  const run = (...command: string[]): string => Bun.spawnSync(command).stdout.toString();
  // The fourth is the folder that it lists.
  expect(run("ls", "/proc/self/fd").trim().split("\n")).toEqual(["0", "1", "2", "3"]);
  const status = run("cat", "/proc/self/status");
  for (const set of ["SigBlk", "SigIgn"]) expect(status).toContain(`${set}:\t0000000000000000\n`);
  server.close();
});

test.skipIf(!isLinux)("the limit of open files is raised to the hard one, for children as well", async () => {
  const script = `const limits = (text) => /^Max open files +(\\d+) +(\\d+)/m.exec(text).slice(1);
    const { readFileSync } = await import("node:fs");
    const child = Bun.spawnSync(["cat", "/proc/self/limits"]).stdout.toString();
    console.log(JSON.stringify([limits(readFileSync("/proc/self/limits", "utf8")), limits(child)]));`;
  const raised = ["900", "900"];
  expect(await ask<string[][]>(script, "ulimit -Sn 300; ulimit -Hn 900")).toEqual([raised, raised]);
});

test("a program that is missing is an error at once", () => {
  expect(() => Bun.spawn(["/nowhere/program"])).toThrow(expect.objectContaining({ code: "ENOENT" }));
});

test.skipIf(!isLinux)("after another program took its path, /proc has the very program that runs", async () => {
  const folder = temporaryFolder();
  const [path, other, script] = [join(folder, "program"), join(folder, "other"), join(folder, "script.mjs")];
  copyFileSync(process.execPath, path);
  writeFileSync(other, "#!/bin/sh\necho another\n", { mode: 0o755 });
  writeFileSync(
    script,
    `await Bun.stdin.text();
    const said = (program) => Bun.spawnSync([program, "-e", "console.log('the same')"]).stdout.toString().trim();
    console.log(JSON.stringify([process.execPath, said(\`/proc/\${process.pid}/exe\`)]));`,
  );
  const child = Bun.spawn([path, script], { stdin: "pipe", stdout: "pipe" });
  // It runs, and so has its file, before spawn returns.
  renameSync(other, path);
  child.stdin.end();
  expect(await new Response(child.stdout).json()).toEqual([`${path} (deleted)`, "the same"]);
});

test("terminate() ends a worker in a loop, and not one that is busy in SQLite", async () => {
  const busy = {
    loop: 'postMessage("busy"); for (;;);',
    sqlite: `const { Database } = await import("bun:sqlite");
      const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
      const query = new Database(":memory:").query(endless);
      postMessage("busy");
      query.get();`,
  };
  const script = `const ended = async (code) => {
      const worker = new Worker(URL.createObjectURL(new Blob([code])));
      await new Promise((resolve) => (worker.onmessage = resolve));
      await Bun.sleep(200);
      const closed = new Promise((resolve) => worker.addEventListener("close", () => resolve(true)));
      worker.terminate();
      return Promise.race([closed, Bun.sleep(1_000).then(() => false)]);
    };
    const found = [];
    for (const code of ${JSON.stringify(Object.values(busy))}) found.push(await ended(code));
    require("node:fs").writeSync(1, JSON.stringify(found));
    process.kill(process.pid, "SIGKILL");`;
  expect(await ask<boolean[]>(script)).toEqual([true, false]);
}, 30_000);

test.skipIf(!isLinux)("files of /proc are read whole, but not by a Bun.file whose size was asked", async () => {
  expect(readFileSync("/proc/meminfo", "latin1")).toStartWith("MemTotal:");
  const file = Bun.file("/proc/meminfo");
  expect([file.size, await file.text()]).toEqual([0, ""]);
});

test.skipIf(!isLinux)("the cores that a process may use are counted, not those of the machine", async () => {
  const script = 'console.log((await import("node:os")).availableParallelism())';
  expect(await ask<number>(script, "taskset -p -c 0 $$ >/dev/null")).toBe(1);
});
