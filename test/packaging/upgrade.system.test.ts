/**
 * Upgrades by install.sh on a machine where Mailroom runs (machine.ts): one that fails is undone, and one that is cut off
 * anywhere is finished or undone by running it again.
 */
import { describe, expect, test } from "bun:test";
import { freshlyInstalled, interruptAt, mailIn, NEXT, subjects, upgrade, versionOf } from "./installs.ts";
import { machineMissing } from "./machine.ts";

describe.skipIf(machineMissing !== undefined)(
  `upgrading by install.sh${machineMissing ? ` (skipped: ${machineMissing})` : ""}`,
  () => {
    test("an upgrade backs up first; a version that does not start is undone, executable and data", async () => {
      const { machine, key } = await freshlyInstalled();
      await mailIn(machine, "One");
      const { exitCode, stdout } = await upgrade(machine, "next");
      expect([exitCode, await versionOf(machine)]).toEqual([0, "0.2.0"]);
      expect(stdout).toMatch(/The data as it was is backup \S+ in \/var\/backups\/mailroom\/upgrades$/m);
      await mailIn(machine, "Two");
      // What no backup has.
      await machine.bash("cd /var/lib/mailroom && install -d -m 700 -o mailroom keys && echo sealed >keys/probe");

      for (const version of ["broken", "hanging"]) {
        const failed = await upgrade(machine, version);
        expect([failed.exitCode, failed.stderr]).toEqual([1, expect.stringContaining("version 0.3.0 did not come up")]);
        expect(failed.stderr).toContain("the version before runs, on its data");
        expect(await versionOf(machine)).toBe("0.2.0");
        expect(await subjects(machine, key)).toEqual(["One", "Two"]);
        expect(machine.has("var/lib/mailroom/late")).toBe(false);
        expect(machine.read("var/lib/mailroom/keys/probe")).toBe("sealed\n");
      }
      // What the failed version wrote is set aside: mail may have come in.
      expect(await machine.bash("cat /var/lib/mailroom.failed-*/late")).toContain("late");
      expect(await mailIn(machine, "Three")).toStartWith("250 ");
      expect(await subjects(machine, key)).toEqual(["One", "Three", "Two"]);
    }, 300_000);

    let shared: ReturnType<typeof freshlyInstalled> | undefined;
    test.each([
      ["stopping", "stop 1 INT", "next", "before"],
      ["stopping, without a chance to tidy", "stop 1 KILL", "next", "none"],
      ["putting the new version in place", "daemon-reload 1 TERM", "next", "next"],
      ["starting it", "start 1 KILL", "next", "next"],
      ["going back", "daemon-reload 2 KILL", "broken", "none"],
      ["having gone back", "start 2 KILL", "broken", "before"],
    ])("an upgrade cut off at %s loses nothing, and running it again finishes it", async (_, at, version, runs) => {
      shared ??= freshlyInstalled();
      const { machine, key } = await shared;
      const before = await versionOf(machine);
      const next = `${Number(before.split(".")[0]) + 1}.0.0`;
      machine.write("media/release/next", NEXT.replace("0.2.0", next), 0o755);
      await mailIn(machine, at);
      interruptAt(machine, at);
      expect((await upgrade(machine, version)).exitCode).toBeGreaterThan(128);
      if (runs !== "none") {
        expect(await versionOf(machine)).toBe(runs === "next" ? next : before);
        expect(await subjects(machine, key)).toContain(at);
      }
      // One that failed is undone to its end first, whatever is to be installed now.
      if (version === "broken") expect((await upgrade(machine, "next")).stderr).toContain("the upgrade was undone");
      expect((await upgrade(machine, "next")).exitCode).toBe(0);
      expect([await versionOf(machine), await subjects(machine, key)]).toEqual([next, expect.arrayContaining([at])]);
      expect(await machine.bash("ls /var/lib/mailroom-install")).toBe("");
    });

    test("with encrypted backups, too, one that fails is undone, and nothing that is not encrypted stays", async () => {
      const { machine, key } = await freshlyInstalled();
      await mailIn(machine, "Sealed");
      await machine.bash(`
        mailroom backup key /var/lib/mailroom/key.txt
        mailroom settings set backup.recipients "$(sed -n 's/^# public key: //p' /var/lib/mailroom/key.txt)"`);
      const failed = await upgrade(machine, "broken");
      expect([failed.exitCode, failed.stderr]).toEqual([
        1,
        expect.stringContaining("the version before runs, on its data"),
      ]);
      expect([await versionOf(machine), await subjects(machine, key)]).toEqual([
        expect.stringMatching(/^0\.1\.0/),
        ["Sealed"],
      ]);
      const { exitCode, stdout } = await upgrade(machine, "next");
      expect([exitCode, await versionOf(machine)]).toEqual([0, "0.2.0"]);
      const [, id] = /The data as it was is backup (\S+) in \/var\/backups\/mailroom\/upgrades$/m.exec(stdout) ?? [];
      expect(await machine.bash("ls /var/backups/mailroom; find /var/backups/mailroom -name mailroom.db")).toBe(
        "upgrades\n",
      );
      expect(machine.has(`var/backups/mailroom/upgrades/generations/${id}/mailroom.db.age`)).toBe(true);
    }, 300_000);

    test("interrupted, and run again much later: the mail that came in meanwhile is kept", async () => {
      const { machine, key } = await freshlyInstalled();
      await mailIn(machine, "Before");
      interruptAt(machine, "daemon-reload 1 TERM");
      expect((await upgrade(machine, "next")).exitCode).toBe(143);
      expect(await mailIn(machine, "Meanwhile")).toStartWith("250 ");
      expect((await upgrade(machine, "broken")).stderr).toContain("the upgrade was undone");
      expect(await versionOf(machine)).toBe("0.2.0");
      expect(await subjects(machine, key)).toEqual(["Before", "Meanwhile"]);
    }, 300_000);
  },
);
