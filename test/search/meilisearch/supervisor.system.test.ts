/** The child process: how it starts, fails, hangs, is replaced and ends. */
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { readProcessState } from "../../../src/base/child-process.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import {
  argumentsOf,
  isAlive,
  makeStandIn,
  markData,
  type Rig,
  supervise,
} from "../../harness/peers/meilisearch-stand-in.ts";
import { until } from "../../harness/until.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const MB = 1024 * 1024;

/** A supervisor with the stand-in as configured executable. */
function started(mode: Parameters<typeof makeStandIn>[1] = "works", data?: string) {
  const standIn = makeStandIn(temporaryFolder(), mode);
  const rig = supervise({ "search.meilisearchPath": standIn.path }, data);
  rig.supervisor.start();
  return { standIn, ...rig };
}

const stateOf = ({ supervisor }: Pick<Rig, "supervisor">) => supervisor.state().state;
const runs = (rig: Pick<Rig, "supervisor">) => () => stateOf(rig) === "running";
const failed = (rig: Pick<Rig, "supervisor">) => () => stateOf(rig) === "failed";
const pidOf = ({ supervisor }: Pick<Rig, "supervisor">) => supervisor.state().pid;

/** Ends it by a signal from outside. */
async function killed(rig: Rig, signal: NodeJS.Signals): Promise<void> {
  const pid = pidOf(rig);
  if (pid === undefined) throw new Error("nothing runs");
  process.kill(pid, signal);
  await rig.until(failed(rig));
}

describe("starting", () => {
  test("listens on a port of this machine alone, with a key that only it knows, and writes below one folder", async () => {
    const rig = started();
    expect(rig.supervisor.current()).toBeUndefined();
    await rig.until(runs(rig));
    const { url, key } = rig.supervisor.current() ?? {};
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    const given = argumentsOf(pidOf(rig));
    const folder = join(rig.data, "search");
    expect(given.slice(given.indexOf("--env"))).toEqual([
      "--env",
      "production",
      "--no-analytics",
      "--log-level",
      "WARN",
      "--http-addr",
      url?.slice(7) ?? "",
      "--db-path",
      join(folder, "data"),
      "--dump-dir",
      join(folder, "tmp"),
      "--snapshot-dir",
      join(folder, "tmp"),
      "--max-indexing-memory",
      expect.stringMatching(/^\d+$/),
      "--max-indexing-threads",
      expect.stringMatching(/^[1-4]$/),
    ]);
    const environment = readFileSync(`/proc/${pidOf(rig)}/environ`, "utf8").split("\0");
    expect(environment).toContain(`MEILI_MASTER_KEY=${key}`);
    expect(environment).toContain(`TMPDIR=${join(folder, "tmp")}`);
    expect(environment.filter((entry) => /^(MAILROOM|HOME|AWS)/.test(entry))).toEqual([]);
    expect(readFileSync(`/proc/${pidOf(rig)}/oom_score_adj`, "utf8")).toBe("500\n");
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(folder))
      expect([name, statSync(join(folder, name)).mode & 0o077]).toEqual([name, 0]);
    expect(JSON.stringify(rig.lines)).not.toContain(key ?? "");
    expect(rig.supervisor.state()).toMatchObject({ version: "1.21.0", restarts: 0 });

    await rig.supervisor.stop(0);
    expect(rig.supervisor.current()).toBeUndefined();
    expect(stateOf(rig)).toBe("off");
  });

  test("works in a data folder that is named from the working folder", async () => {
    const data = temporaryFolder();
    makeStandIn(join(data, "bin"));
    const rig = supervise({}, relative(process.cwd(), data));
    rig.supervisor.start();
    await rig.until(runs(rig));
    expect(existsSync(join(data, "search/data/VERSION"))).toBe(true);
    expect(readdirSync(join(data, "search")).sort()).toEqual(["data", "process.json", "tmp"]);
  });

  test("makes it available once it responds", async () => {
    const rig = started("slow");
    await rig.until(() => pidOf(rig) !== undefined);
    expect([stateOf(rig), rig.supervisor.current()]).toEqual(["starting", undefined]);
    rig.standIn.mode("works");
    await rig.until(runs(rig));
    expect(rig.supervisor.current()).toBeDefined();
  });

  test("ends and retries a process that never responds", async () => {
    const rig = started("hangs");
    await rig.until(() => pidOf(rig) !== undefined);
    const pid = pidOf(rig);
    await rig.passing(failed(rig), "unanswered");
    expect(rig.supervisor.state().reason).toBe("it was started, and did not answer within 120 s");
    expect(isAlive(pid)).toBe(false);
    rig.standIn.mode("works");
    await rig.passing(runs(rig));
  });

  test("takes another port at once if its port is taken", async () => {
    const rig = started("loses its port");
    await rig.until(runs(rig));
    expect(rig.supervisor.state().restarts).toBe(0);
  });

  const noThief = process.getuid?.() === 0 ? undefined : "needs root";
  const byAnother = `its port taken by another user, who answers in its place: that is not it${noThief ? ` (skipped: ${noThief})` : ""}`;
  test.skipIf(noThief !== undefined)(byAnother, async () => {
    const rig = started("slow");
    await rig.until(() => pidOf(rig) !== undefined);
    let port: string | undefined;
    // It has no arguments for a moment while the shell becomes another program.
    await until(() => {
      const given = argumentsOf(pidOf(rig));
      port = given[given.indexOf("--http-addr") + 1]?.split(":")[1];
      return port;
    });
    const asked = Promise.withResolvers<void>();
    const thief = Bun.spawn(
      [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        process.execPath,
        "-e",
        `let asked = 0; Bun.serve({ hostname: "127.0.0.1", port: ${port}, fetch: () => {
           if (++asked === 3) console.log("asked");
           return Response.json({ status: "available" });
         } })`,
      ],
      { env: {}, stdio: ["ignore", "pipe", "inherit"] },
    );
    void thief.stdout
      .getReader()
      .read()
      .then(() => asked.resolve());
    await asked.promise;
    expect([stateOf(rig), rig.supervisor.current()]).toEqual(["starting", undefined]);
    thief.kill("SIGKILL");
    await thief.exited;
  });
});

describe("without an executable that works, it reports the reason", () => {
  const cases: [name: string, prepare: (folder: string) => Record<string, string>, reason: RegExp][] = [
    [
      "none anywhere",
      () => ({}),
      /search\.meilisearchPath names none, there is no \S+\/bin\/meilisearch, and none in PATH$/,
    ],
    [
      "not where the setting says",
      () => ({ "search.meilisearchPath": "/nowhere" }),
      /names \/nowhere, which is not there$/,
    ],
    [
      "not executable",
      (folder) => {
        const { path } = makeStandIn(folder);
        chmodSync(path, 0o644);
        return { "search.meilisearchPath": path };
      },
      /cannot be run here \(.*\): is it executable, and for this machine\?$/,
    ],
    [
      "for another machine",
      (folder) => {
        const path = join(folder, "meilisearch");
        writeFileSync(path, new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, ...new Uint8Array(60).fill(0xf3)]), {
          mode: 0o755,
        });
        return { "search.meilisearchPath": path };
      },
      /cannot be run here|is no Meilisearch/,
    ],
    [
      "another program",
      (folder) => ({ "search.meilisearchPath": makeStandIn(folder, "says no version").path }),
      /is no Meilisearch: asked its version, it said "hello" \(exit 0\)$/,
    ],
    [
      "one that talks without end",
      (folder) => ({ "search.meilisearchPath": makeStandIn(folder, "floods its version").path }),
      /is no Meilisearch: .*\(SIGKILL\)$/,
    ],
  ];
  test.each(cases)("%s", async (_, prepare, reason) => {
    const rig = supervise(prepare(temporaryFolder()));
    rig.supervisor.start();
    await rig.until(failed(rig));
    expect(rig.supervisor.state().reason).toMatch(reason);
    expect(rig.lines.at(-1)).toMatchObject({ level: "warn", reason: expect.stringMatching(reason) });
    // The state that a doctor beside the server reads.
    expect(readProcessState(join(rig.data, "search"))).toMatchObject({
      state: "failed",
      reason: expect.stringMatching(reason),
    });
  });

  test("an executable in the data folder is found without a setting, and the setting takes precedence", async () => {
    const rig = supervise({});
    const own = makeStandIn(join(rig.data, "bin"));
    rig.supervisor.start();
    await rig.until(runs(rig));
    expect(rig.supervisor.state().executable).toBe(own.path);
    const other = makeStandIn(temporaryFolder());
    rig.set({ "search.meilisearchPath": other.path });
    await rig.until(() => runs(rig)() && rig.supervisor.state().executable === other.path);
  });
});

describe("a process that ends by itself", () => {
  test("is retried after delays that double up to five minutes, and its last output is reported without the key", async () => {
    const rig = started("exits");
    const waits: number[] = [];
    for (let i = 0; i < 11; i++) {
      await rig.until(failed(rig));
      const { retryAt = 0, reason } = rig.supervisor.state();
      expect(reason).toBe("it ended (exit 1): it will not, with the key [redacted]");
      waits.push((retryAt - rig.clock.now()) / SECOND_MS);
      rig.clock.advanceTo(retryAt - 1);
      expect(stateOf(rig)).toBe("failed");
      rig.clock.advanceTo(retryAt);
      await rig.until(() => stateOf(rig) === "starting");
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    rig.standIn.mode("works");
    await rig.passing(runs(rig));
    expect(rig.supervisor.state().restarts).toBe(11);
  });

  test("is retried after the first delay if it ran stably", async () => {
    const rig = started();
    const wait = async () => {
      await rig.until(runs(rig));
      await killed(rig, "SIGSEGV");
      const { retryAt = 0 } = rig.supervisor.state();
      const waited = (retryAt - rig.clock.now()) / SECOND_MS;
      rig.clock.advanceTo(retryAt);
      return waited;
    };
    expect([await wait(), await wait(), await wait()]).toEqual([1, 2, 4]);
    await rig.until(runs(rig));
    rig.clock.advanceTo(rig.clock.now() + 5 * MINUTE_MS);
    expect([await wait(), await wait()]).toEqual([1, 2]);
  });

  test("is retried in time although a grandchild holds stderr open", async () => {
    const rig = started("leaves a child");
    await rig.until(() => pidOf(rig) !== undefined);
    const pid = pidOf(rig);
    while (isAlive(pid)) await new Promise((resolve) => setImmediate(resolve));
    await rig.passing(failed(rig), "unanswered");
    expect(rig.supervisor.state().reason).toBe("it ended (exit 1): its stderr is still open");
    await rig.supervisor.stop(0);
    process.kill(Number(readFileSync(join(dirname(rig.standIn.path), "child"), "utf8")), "SIGKILL");
  });

  test("has only the beginning of an endless log passed on", async () => {
    const rig = started("floods");
    await rig.until(runs(rig));
    await rig.supervisor.stop(0);
    const said = rig.lines.filter(({ message }) => message === "meilisearch says");
    expect(said).toHaveLength(30);
    expect(said[0]).toMatchObject({ level: "warn", line: "2026-01-05T09:00:00Z  WARN noise: 0" });
  });
});

describe("a process that hangs", () => {
  test("is killed after three missed polls in a row, and restarted", async () => {
    const rig = started();
    await rig.until(runs(rig));
    const pid = pidOf(rig);
    const since = rig.clock.now();
    rig.standIn.mode("hangs");
    await rig.passing(failed(rig), "unanswered");
    expect(rig.supervisor.state().reason).toBe("it did not answer 3 times in a row");
    expect(rig.clock.now() - since).toBe(60 * SECOND_MS);
    expect([isAlive(pid), rig.supervisor.current()]).toEqual([false, undefined]);
    rig.standIn.mode("works");
    await rig.passing(runs(rig));
  });

  test("stays if it responds again in time", async () => {
    const rig = started();
    await rig.until(runs(rig));
    const pid = pidOf(rig);
    for (let round = 0; round < 3; round++) {
      const since = rig.clock.now();
      // Between two requests: one in progress could belong to either side.
      const isAfter = (ms: number) => () => rig.clock.now() - since >= ms && !rig.isAsking();
      rig.standIn.mode("hangs");
      await rig.passing(isAfter(40 * SECOND_MS), "unanswered");
      rig.standIn.mode("works");
      await rig.passing(isAfter(80 * SECOND_MS));
    }
    expect([stateOf(rig), pidOf(rig)]).toEqual(["running", pid]);
  });
});

describe("the process ends with the server", () => {
  test("on request, at once", async () => {
    const rig = started();
    await rig.until(runs(rig));
    const pid = pidOf(rig);
    await rig.supervisor.stop(9 * SECOND_MS);
    expect(isAlive(pid)).toBe(false);
    expect(rig.clock.timers()).toEqual([]);
  });

  test("if it ignores the request, after its grace period", async () => {
    const rig = started("stubborn");
    await rig.until(runs(rig));
    const pid = pidOf(rig);
    const stopped = rig.supervisor.stop(9 * SECOND_MS);
    const deadline = rig.clock.now() + 9 * SECOND_MS;
    while (!rig.clock.timers().includes(deadline)) await new Promise((resolve) => setImmediate(resolve));
    rig.clock.advanceTo(rig.clock.now() + 9 * SECOND_MS - 1);
    expect(isAlive(pid)).toBe(true);
    rig.clock.advanceTo(rig.clock.now() + 1);
    await stopped;
    expect(isAlive(pid)).toBe(false);
  });

  test.each(["slow", "exits", "hangs"] as const)("while it %s, too", async (mode) => {
    const rig = started(mode);
    if (mode === "exits") await rig.until(failed(rig));
    else await rig.until(() => pidOf(rig) !== undefined);
    const pid = pidOf(rig);
    await rig.supervisor.stop(0);
    expect([isAlive(pid), rig.clock.timers()]).toEqual([false, []]);
  });

  test("even if the server is killed", async () => {
    const data = temporaryFolder();
    const { path } = makeStandIn(temporaryFolder(), "stubborn");
    const server = Bun.spawn(
      [
        process.execPath,
        "-e",
        `import { supervise } from ${JSON.stringify(join(import.meta.dir, "../../harness/peers/meilisearch-stand-in.ts"))};
         const { supervisor, until } = supervise({ "search.meilisearchPath": ${JSON.stringify(path)} }, ${JSON.stringify(data)});
         supervisor.start();
         await until(() => supervisor.state().state === "running");
         console.log(supervisor.state().pid);`,
      ],
      { env: { PATH: process.env.PATH ?? "" }, stdio: ["ignore", "pipe", "inherit"] },
    );
    const { value } = await server.stdout.getReader().read();
    const pid = Number(new TextDecoder().decode(value));
    expect(isAlive(pid)).toBe(true);
    server.kill("SIGKILL");
    await server.exited;
    while (isAlive(pid)) await new Promise((resolve) => setImmediate(resolve));
  });

  test("or before the next start, if it survived", async () => {
    const data = temporaryFolder();
    const { path } = makeStandIn(temporaryFolder(), "stubborn");
    const place = ["--http-addr", "127.0.0.1:0", "--db-path"];
    const left = Bun.spawn([path, ...place, join(data, "search/data")], { stdio: ["ignore", "ignore", "inherit"] });
    const others = Bun.spawn([path, ...place, join(data, "search/data2")], { stdio: ["ignore", "ignore", "inherit"] });
    const rig = started("works", data);
    await rig.until(runs(rig));
    await left.exited;
    expect([left.signalCode, isAlive(others.pid)]).toEqual(["SIGKILL", true]);
    others.kill("SIGKILL");
    await others.exited;
  });
});

describe("the data of the process", () => {
  test("of the same version stay; of another, or never finished, they are removed", async () => {
    const rig = started();
    await rig.until(runs(rig));
    const mark = markData(rig.data);
    await killed(rig, "SIGKILL");
    await rig.passing(runs(rig));
    expect(mark.isThere()).toBe(true);

    rig.standIn.version("1.22.0");
    await killed(rig, "SIGKILL");
    await rig.passing(runs(rig));
    expect([mark.isThere(), rig.supervisor.state().version]).toEqual([false, "1.22.0"]);
  });

  test("without a version are removed", async () => {
    const data = temporaryFolder();
    const mark = markData(data);
    const rig = started("works", data);
    await rig.until(runs(rig));
    expect(mark.isThere()).toBe(false);
  });

  test("with which it cannot start are removed at the third failure, and only then", async () => {
    const data = temporaryFolder();
    mkdirSync(join(data, "search/data"), { recursive: true });
    writeFileSync(join(data, "search/data/VERSION"), "1.21.0");
    const mark = markData(data);
    const rig = started("finds its data corrupt", data);
    for (let time = 1; time <= 3; time++) {
      expect(mark.isThere()).toBe(true);
      await rig.until(failed(rig));
      rig.clock.advanceTo(rig.supervisor.state().retryAt ?? 0);
      await rig.until(() => stateOf(rig) !== "failed");
    }
    await rig.until(runs(rig));
    expect(mark.isThere()).toBe(false);

    rig.standIn.mode("exits");
    await killed(rig, "SIGSEGV");
    const again = markData(data);
    for (let time = 1; time <= 5; time++) {
      rig.clock.advanceTo(rig.supervisor.state().retryAt ?? 0);
      await rig.until(() => stateOf(rig) === "starting");
      await rig.until(failed(rig));
    }
    expect(again.isThere()).toBe(true);
  });

  test("are not blamed for a signal from outside", async () => {
    const rig = started();
    await rig.until(runs(rig));
    const mark = markData(rig.data);
    for (let time = 1; time <= 5; time++) {
      await killed(rig, "SIGKILL");
      await rig.passing(runs(rig));
    }
    expect(mark.isThere()).toBe(true);
  });
});

test("the process is stopped while the disk is nearly full, which keeps room for mail", async () => {
  const rig = started();
  await rig.until(runs(rig));
  rig.room(300 * MB);
  const since = rig.clock.now();
  await rig.passing(() => rig.clock.now() - since >= MINUTE_MS);
  expect(stateOf(rig)).toBe("running");
  rig.room(200 * MB);
  await rig.passing(failed(rig));
  expect(rig.supervisor.state().reason).toMatch(/has 200 MB free, which is kept for mail: make room$/);
  rig.room(300 * MB);
  const { retryAt = 0 } = rig.supervisor.state();
  await rig.passing(() => rig.clock.now() > retryAt && failed(rig)());
  rig.room(600 * MB);
  await rig.passing(runs(rig));
});

describe("settings that change", () => {
  test.each([{ "search.engine": "fts5" }, { "search.meilisearchUrl": "http://127.0.0.1:1" }])(
    "%p: it ends, and what it kept of the mail is removed",
    async (settings) => {
      const rig = started();
      await rig.until(runs(rig));
      const pid = pidOf(rig);
      rig.set(settings);
      expect(rig.supervisor.current()).toBeUndefined();
      await rig.until(() => stateOf(rig) === "off" && !existsSync(join(rig.data, "search")));
      expect(isAlive(pid)).toBe(false);
      rig.set({ "search.engine": "meilisearch", "search.meilisearchUrl": "none" });
      await rig.until(runs(rig));
    },
  );

  test("remove leftovers of an earlier run if it is off from the start", async () => {
    const data = temporaryFolder();
    markData(data);
    const rig = supervise({ "search.engine": "fts5" }, data);
    rig.supervisor.start();
    await rig.until(() => !existsSync(join(data, "search")));
    expect(stateOf(rig)).toBe("off");
  });

  test("leave the process alone if they concern something else", async () => {
    const rig = started();
    await rig.until(runs(rig));
    const pid = pidOf(rig);
    rig.set({ "api.cooldownSeconds": "1" });
    expect([stateOf(rig), pidOf(rig)]).toEqual(["running", pid]);
  });
});
