/** A backup folder on a disk that fills up: the error says so, former backups stay whole. Needs the right to mount. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { filesOf, openBackupRig } from "../harness/data/backup-rig.ts";
import { diskNote, MB, mountDisk } from "../harness/small-disk.ts";

test.skipIf(diskNote !== "")(
  `a disk too small for the database, for the files, and with room again${diskNote}`,
  async () => {
    const disk = mountDisk(8 * MB);
    const folder = join(disk.path, "backup");
    const { ask, say, add } = await openBackupRig();
    await add("first");
    await ask("backup", folder);
    const former = filesOf(folder);
    const expectFormer = async () => {
      expect(filesOf(folder)).toEqual(former);
      expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}] });
    };

    disk.fill(0.5 * MB);
    expect(await say("backup", folder)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(
        /has \d+ MB free, and the database alone takes \d+ MB; the former backups are as they were/,
      ),
    });
    await expectFormer();

    // Room for the database, but not for the blobs that it names.
    disk.empty();
    await add("x".repeat(8 * MB));
    const said = await say("backup", folder);
    expect(said).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/disk of .* is full; the former backups are/),
    });
    await expectFormer();

    disk.grow(40 * MB);
    expect(await ask("backup", folder)).toMatchObject({ blobs: 2, copied: 1 });
    expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}, {}] });
  },
);
