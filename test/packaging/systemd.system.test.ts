/**
 * Mailroom under the real systemd: systemd/journey.ts and systemd/day.ts, each in a network of its own, in which it can give
 * addresses of the outside, and with processes of its own, all of which end with it.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { noPebble } from "../harness/peers/pebble.ts";
import { noReplica } from "../harness/servers/replica.ts";
import { systemdMissing } from "./machine.ts";

const OWN = ["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"];
const SCRIPT = `ip link set lo up && ip address add 93.184.215.14/32 dev lo &&
  exec "$0" test --timeout=180000 "./test/packaging/systemd/$1.ts"`;

const missing = systemdMissing && ` (skipped: ${systemdMissing})`;
const without = [
  ...(process.env.MEILISEARCH_BIN === undefined ? ["MEILISEARCH_BIN names no server"] : []),
  ...[noReplica, noPebble].filter((reason) => reason !== undefined),
];
const partly = without.length === 0 ? "" : `, in part (${without.join("; ")})`;

describe.skipIf(missing !== undefined)(`under systemd${missing ?? partly}`, () => {
  test.each([
    ["it is installed, confined, does all that it does, is killed, upgraded and removed", "journey"],
    ["the machine is gone: all comes back on another one, from a backup and by a standby", "day"],
  ])(
    "%s",
    async (_, name) => {
      const child = Bun.spawn([...OWN, "sh", "-c", SCRIPT, process.execPath, name], {
        cwd: join(import.meta.dir, "../.."),
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [stdout, stderr] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
      ]);
      if ((await child.exited) !== 0) throw new Error(stdout + stderr);
      expect(stderr).toMatch(/^ 0 fail$/m);
    },
    900_000,
  );
});
