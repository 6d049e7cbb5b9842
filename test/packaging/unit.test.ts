/** The unit file, judged by systemd itself, and what it says held against what the program asks of the system. */
import { describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";

const PACKAGING = join(import.meta.dir, "../../packaging");
const UNITS = "/lib/systemd/system";
const UNIT = join(PACKAGING, "mailroom.service");
/** What `systemd-analyze security` calls OK ends at 4. */
const MOST_EXPOSURE = 2;
const missing = (program: string): string =>
  Bun.which(program) === null ? ` (skipped: ${program} is not installed)` : "";

async function run(...command: string[]): Promise<{ exitCode: number; output: string }> {
  const child = Bun.spawn(command, { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { exitCode: await child.exited, output: stdout + stderr };
}

describe.skipIf(missing("systemd-analyze") !== "")(`the unit${missing("systemd-analyze")}`, () => {
  test("passes systemd-analyze verify without output", async () => {
    // Units are looked at in a root in which the program is there.
    const root = temporaryFolder();
    for (const folder of ["etc/systemd/system", "usr/local/lib/mailroom", "etc/mailroom"]) {
      mkdirSync(join(root, folder), { recursive: true });
    }
    // What it is ordered by.
    for (const name of readdirSync(UNITS).filter((name) => /\.(target|slice)$/.test(name))) {
      copyFileSync(join(UNITS, name), join(root, "etc/systemd/system", name));
    }
    writeFileSync(join(root, "usr/local/lib/mailroom/mailroom"), "#!/bin/sh\n", { mode: 0o755 });
    writeFileSync(join(root, "etc/mailroom/mailroom.env"), "");
    writeFileSync(join(root, "etc/systemd/system/mailroom.service"), await Bun.file(UNIT).text());
    const { exitCode, output } = await run(
      "systemd-analyze",
      "verify",
      "--man=no",
      `--root=${root}`,
      "mailroom.service",
    );
    const ours = output.split("\n").filter((line) => line.includes("mailroom"));
    expect([exitCode, ours]).toEqual([0, []]);
  });

  test(`is exposed less than ${MOST_EXPOSURE} of 10`, async () => {
    const { exitCode, output } = await run(
      "systemd-analyze",
      "security",
      "--no-pager",
      "--offline=true",
      `--threshold=${MOST_EXPOSURE * 10}`,
      UNIT,
    );
    expect([exitCode, output]).toEqual([
      0,
      expect.stringMatching(/Overall exposure level for mailroom.service: 1\.\d OK/),
    ]);
  });
});

/** The version of systemd in which it could first be said so (systemd's NEWS); what is older than any system here is 0. */
const KNOWN_SINCE: Readonly<Record<string, number>> = {
  ...{ Description: 0, Wants: 0, After: 0, StartLimitIntervalSec: 230, StartLimitBurst: 0, WantedBy: 0 },
  ...{ User: 0, Group: 0, EnvironmentFile: 0, ExecStart: 0, WorkingDirectory: 0, Restart: 0, RestartSec: 0, UMask: 0 },
  ...{ RestartPreventExitStatus: 0, TimeoutStopSec: 0, LimitNOFILE: 0, LimitCORE: 0, TasksMax: 227 },
  ...{ KillMode: 0, "KillMode=mixed": 209, OOMPolicy: 243 },
  ...{ CapabilityBoundingSet: 0, AmbientCapabilities: 229, NoNewPrivileges: 0, ReadWritePaths: 231, ProtectHome: 0 },
  ...{ PrivateTmp: 0, PrivateDevices: 0, DevicePolicy: 0, RemoveIPC: 232, KeyringMode: 235, LockPersonality: 235 },
  ...{ ProtectClock: 245, ProtectControlGroups: 232, ProtectHostname: 242, ProtectKernelLogs: 244 },
  ...{ ProtectKernelModules: 232, ProtectKernelTunables: 232, RestrictNamespaces: 233, RestrictRealtime: 231 },
  ...{ RestrictSUIDSGID: 242, RestrictAddressFamilies: 0, SystemCallArchitectures: 0, SystemCallErrorNumber: 0 },
  // With the values that they have.
  ...{ "Type=exec": 240, "ProtectSystem=strict": 232, "ProtectProc=invisible": 247 },
  ...{ "SystemCallFilter=@system-service": 239, "SystemCallFilter=~@privileged @resources": 231 },
};
/** Debian 11 has 247, Ubuntu 22.04 has 249. */
const OLDEST_SYSTEMD = 247;

test("the unit uses only directives of the oldest supported systemd", async () => {
  const lines = (await Bun.file(UNIT).text()).split("\n").filter((line) => /^[A-Z]\w+=/.test(line));
  const since = lines.map((line) => [line, KNOWN_SINCE[line] ?? KNOWN_SINCE[line.split("=")[0] ?? ""]] as const);
  expect(since.filter(([, version]) => version === undefined || version > OLDEST_SYSTEMD)).toEqual([]);
  expect(Math.max(...since.map(([, version]) => version ?? 0))).toBe(OLDEST_SYSTEMD);
});

test.skipIf(missing("shellcheck") !== "")(`the scripts are clean for shellcheck${missing("shellcheck")}`, async () => {
  const ours = [
    "install.sh",
    "packaging/mailroom",
    "packaging/nsupdate-hook",
    "test/packaging/systemctl",
    ".ci/run",
    ".ci/musl-roots",
  ];
  const scripts = ours.map((path) => join(PACKAGING, "..", path));
  expect(await run("shellcheck", ...scripts)).toEqual({ exitCode: 0, output: "" });
});
