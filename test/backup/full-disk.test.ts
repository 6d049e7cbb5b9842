/** A backup folder on a disk that fills up: told clearly, the former backups whole. Needs the right to mount. */
import { expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { filesOf, openOffice } from "./rig.ts";

const MB = 1_000_000;
const mounted: string[] = [];
atEndOfFile(() => {
  for (const disk of mounted.splice(0)) Bun.spawnSync(["umount", disk]);
});

function mountDisk(bytes: number): string | undefined {
  const disk = join(temporaryFolder(), "disk");
  mkdirSync(disk);
  if (Bun.spawnSync(["mount", "-t", "tmpfs", "-o", `size=${bytes}`, "none", disk]).exitCode !== 0) return undefined;
  mounted.push(disk);
  return disk;
}

const disk = mountDisk(8 * MB);

test.skipIf(disk === undefined)("a disk too small for the database, for the files, and with room again", async () => {
  const folder = join(disk as string, "backup");
  const { ask, say, add } = await openOffice();
  await add("first");
  await ask("backup", folder);
  const former = filesOf(folder);
  const expectFormer = async () => {
    expect(filesOf(folder)).toEqual(former);
    expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}] });
  };

  const filler = join(disk as string, "filler");
  writeFileSync(filler, new Uint8Array(7.3 * MB));
  expect(await say("backup", folder)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(
      /has \d+ MB free, and the database alone takes \d+ MB; the former backups are as they were/,
    ),
  });
  await expectFormer();

  // Room for the database, though not for what it names.
  rmSync(filler);
  await add("x".repeat(8 * MB));
  const said = await say("backup", folder);
  expect(said).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/disk of .* is full; the former backups are/),
  });
  await expectFormer();

  Bun.spawnSync(["mount", "-o", `remount,size=${40 * MB}`, disk as string]);
  expect(await ask("backup", folder)).toMatchObject({ blobs: 2, copied: 1 });
  expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}, {}] });
});
