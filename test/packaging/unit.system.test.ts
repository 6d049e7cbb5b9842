/** The unit file, judged by systemd itself; and scripts, judged by shellcheck. */
import { describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";

const PACKAGING = join(import.meta.dir, "../../packaging");
const UNITS = "/lib/systemd/system";
const UNIT = join(PACKAGING, "mailroom.service");
/** Highest exposure that the unit may have. `systemd-analyze security` calls up to 4 OK. */
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
    // Units are looked at in a root in which the programs are there.
    const root = temporaryFolder();
    for (const folder of ["etc/systemd/system", "usr/local/lib/mailroom", "etc/mailroom", "bin"]) {
      mkdirSync(join(root, folder), { recursive: true });
    }
    // What it is ordered by.
    for (const name of readdirSync(UNITS).filter((name) => /\.(target|slice)$/.test(name))) {
      copyFileSync(join(UNITS, name), join(root, "etc/systemd/system", name));
    }
    for (const program of ["usr/local/lib/mailroom/mailroom", "bin/sh"]) {
      writeFileSync(join(root, program), "#!/bin/sh\n", { mode: 0o755 });
    }
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
