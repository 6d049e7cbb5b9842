/** The unit file asks nothing that the oldest systemd it is for does not know. */
import { expect, test } from "bun:test";
import { join } from "node:path";

const PACKAGING = join(import.meta.dir, "../../packaging");
const UNIT = join(PACKAGING, "mailroom.service");

/** The version of systemd in which it could first be said so (systemd's NEWS); what is older than any system here is 0. */
const KNOWN_SINCE: Readonly<Record<string, number>> = {
  ...{ Description: 0, Wants: 0, After: 0, StartLimitIntervalSec: 230, StartLimitBurst: 0, WantedBy: 0 },
  ...{
    User: 0,
    Group: 0,
    EnvironmentFile: 0,
    ExecStart: 0,
    ExecReload: 0,
    WorkingDirectory: 0,
    Restart: 0,
    RestartSec: 0,
    UMask: 0,
  },
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

test("no file of the server asks for a priority, which the unit refuses", async () => {
  const src = join(import.meta.dir, "../../src");
  const files = await Array.fromAsync(new Bun.Glob("**/*.ts").scan(src));
  const asking = await Promise.all(
    files.map(async (file) => (/\bsetPriority\b/.test(await Bun.file(join(src, file)).text()) ? [file] : [])),
  );
  expect([files.length > 100, asking.flat()]).toEqual([true, []]);
});
