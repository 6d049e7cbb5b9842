/**
 * The ways in which install.sh is come to: somebody at a terminal who is asked, an archive that is downloaded from servers
 * of every quality, and systems other than Debian.
 */
import { describe, expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import {
  boot,
  everything,
  FIRST,
  INSTALL,
  install,
  installed,
  keyOf,
  mailIn,
  OFFLINE,
  subjects,
  versionOf,
} from "./installs.ts";
import { type Machine, machineMissing, otherRoots } from "./machine.ts";

const QUESTIONS = [
  "The domain that gets mail (example.com): ",
  "Your address at example.test: ",
  "Your name: ",
] as const;

describe.skipIf(machineMissing !== undefined)(
  `install.sh at a terminal${machineMissing ? ` (skipped: ${machineMissing})` : ""}`,
  () => {
    test("asks for missing values, again after an empty answer, and shows the secrets once", async () => {
      const machine = await boot();
      const [domain, email, name] = QUESTIONS;
      const { exitCode, shown } = await machine.converse(
        [...INSTALL, ...OFFLINE],
        [
          [domain, "\n"],
          [domain, "Example.TEST\n"],
          [email, "Ada@Example.test\n"],
          [name, "Ada Example\n"],
        ],
      );
      expect([exitCode, shown]).toEqual([0, expect.stringContaining("Keep these; they are not shown again")]);
      expect(JSON.parse(await machine.bash("mailroom user list --json"))).toMatchObject([
        { address: "ada@example.test", name: "Ada Example" },
      ]);
      expect(await mailIn(machine, "Asked for")).toStartWith("250 ");
      expect(await subjects(machine, keyOf(shown))).toEqual(["Asked for"]);
      // Nothing is asked that is known.
      const again = await machine.converse([...INSTALL], []);
      expect([again.exitCode, again.shown]).toEqual([
        0,
        expect.stringMatching(/Version 0\.1\.0\+[0-9a-f]{12} is in place already/),
      ]);
    }, 120_000);

    test.each([
      ["Ctrl-C", "\x03", 130, "cut off; run it again to finish"],
      ["Ctrl-D", "\x04", 2, "--email is missing"],
      ["an address elsewhere", "ada@other.test\n", 2, "ada@other.test is not at example.test"],
    ])("answered with %s, nothing is changed", async (_, typed, code, says) => {
      const machine = await boot();
      const before = await everything(machine);
      const [domain, email, name] = QUESTIONS;
      const { exitCode, shown } = await machine.converse(
        [...INSTALL, ...OFFLINE],
        [
          [domain, "example.test\n"],
          [email, typed],
          [name, "Ada\n"],
        ],
      );
      expect([exitCode, shown]).toEqual([code, expect.stringContaining(says)]);
      expect(await everything(machine)).toBe(before);
    });
  },
);

/** A release of version 0.2.0 on a server of the machine's own: where, and its checksum. */
async function served(machine: Machine): Promise<{ at: string; sum: string }> {
  await machine.bash(
    "cd /media && mkdir v && cp -a release/next v/mailroom && cp -a release/{install.sh,packaging} v && tar -czf /media/release.tar.gz v",
  );
  const sum = (await machine.bash("sha256sum /media/release.tar.gz")).slice(0, 64);
  copyFileSync(join(import.meta.dir, "archive-server.ts"), join(machine.root, "media/server.ts"));
  const server = machine.start([
    "env",
    "BUN_BE_BUN=1",
    "/media/release/mailroom",
    "/media/server.ts",
    "/media/release.tar.gz",
  ]);
  const said = await (server.stdout as ReadableStream<Uint8Array>).getReader().read();
  return { at: `http://127.0.0.1:${new TextDecoder().decode(said.value).trim()}`, sum };
}

describe.skipIf(machineMissing !== undefined)(
  `install.sh downloads a release${machineMissing ? ` (skipped: ${machineMissing})` : ""}`,
  () => {
    test.each([
      ["curl", "wget"],
      ["wget", "curl"],
    ])(
      "with %s: what is cut off, short, wrong or not there is refused and leaves nothing; then the whole is installed",
      async (program, other) => {
        const machine = await boot();
        await machine.bash(`rm /usr/bin/${other} && command -v ${program}`);
        const { at, sum } = await served(machine);
        const download = (path: string, checksum = sum) =>
          install(machine, ...FIRST, ...OFFLINE, "--archive", `${at}${path}`, "--sha256", checksum);
        const before = await everything(machine);
        for (const [path, checksum, says] of [
          ["/cut", sum, "the download failed"],
          ["/gone", sum, "the download failed"],
          ["/short", sum, "is not what its checksum says: nothing of it was run"],
          ["/whole", "0".repeat(64), "is not what its checksum says: nothing of it was run"],
        ] as const) {
          const { exitCode, stderr } = await download(path, checksum);
          expect([path, exitCode, stderr]).toEqual([path, 1, expect.stringContaining(says)]);
          expect(await everything(machine)).toBe(before);
        }
        const { exitCode, stdout } = await download("/moved", sum.toUpperCase());
        expect([exitCode, stdout]).toEqual([0, expect.stringContaining("The checksum of the archive is right")]);
        expect(await versionOf(machine)).toBe("0.2.0");
        expect(await machine.bash("ls /usr/local/lib")).toBe("mailroom\n");
      },
      120_000,
    );

    test("without curl and wget it says what to do", async () => {
      const machine = await boot();
      await machine.bash("rm -f /usr/bin/curl /usr/bin/wget");
      const url = "http://127.0.0.1:1/release.tar.gz";
      const said = await install(machine, ...FIRST, "--archive", url, "--sha256", "0".repeat(64));
      expect([said.exitCode, said.stderr]).toEqual([1, expect.stringContaining(`download ${url} and give its path`)]);
    });
  },
);

describe.skipIf(machineMissing !== undefined)(
  `the systems that install.sh is for${machineMissing ? ` (skipped: ${machineMissing})` : ""}`,
  () => {
    const release = (id: string, like = "") => `NAME="X"\nVERSION_ID="1"\nID=${id}\n${like && `ID_LIKE=${like}\n`}`;
    /** Complaint when the system will do: it asks for what comes next. */
    const GOES_ON = "--domain is missing";

    test("are recognised by os-release, derivatives too; others are refused", async () => {
      const machine = await boot();
      for (const [text, code, says] of [
        [release("debian"), 2, GOES_ON],
        [release("ubuntu", "debian"), 2, GOES_ON],
        [release('"ubuntu"', '"debian"'), 2, GOES_ON],
        [release("linuxmint", '"ubuntu debian"'), 2, GOES_ON],
        [release("raspbian", "debian"), 2, GOES_ON],
        [release("fedora"), 1, "this is for Debian and Ubuntu; here is fedora"],
        [release('"rocky"', '"rhel centos fedora"'), 1, "here is rocky rhel centos fedora"],
        [release("notdebian"), 1, "here is notdebian"],
        ["", 1, "here is an unknown system"],
      ] as const) {
        machine.write("etc/os-release", text);
        const { exitCode, stderr } = await install(machine);
        expect([text, exitCode, stderr]).toEqual([text, code, expect.stringContaining(says)]);
      }
      await machine.bash("rm /etc/os-release");
      expect((await install(machine)).stderr).toContain("here is an unknown system");
    });
  },
);

const noOthers = otherRoots.length === 0;
describe.skipIf(machineMissing !== undefined || noOthers)(
  `other systems${noOthers ? " (skipped: needs MAILROOM_TEST_OTHER_ROOTS, made by: debootstrap --variant=minbase --include=systemd,systemd-sysv jammy FOLDER)" : ""}`,
  () => {
    test.each(otherRoots.map(({ name, root }) => [name, root]))(
      "%s: one command, mail comes in, an upgrade that fails is undone, and its systemd takes the unit without a word",
      async (_, root) => {
        const machine = await boot({ from: root });
        const key = keyOf(await installed(machine, ...FIRST, ...OFFLINE));
        expect(await mailIn(machine, "First")).toStartWith("250 ");
        const failed = await install(machine, "--executable", "/media/release/broken");
        expect([failed.exitCode, failed.stderr]).toEqual([1, expect.stringContaining("the upgrade was undone")]);
        expect([await versionOf(machine), await subjects(machine, key)]).toEqual([
          expect.stringMatching(/^0\.1\.0\+[0-9a-f]{12}$/),
          ["First"],
        ]);
        const { exitCode, stdout, stderr } = await machine.run([
          "systemd-analyze",
          "verify",
          "--man=no",
          "/etc/systemd/system/mailroom.service",
        ]);
        const ours = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("mailroom"));
        expect([exitCode, ours]).toEqual([0, []]);
      },
      120_000,
    );
  },
);
