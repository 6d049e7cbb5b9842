/** A backup, checked with system tools: coreutils accept its checksums, and only its owner may read the files. */
import { expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { filesOf, openBackupRig } from "../harness/backup-rig.ts";

interface Made {
  id: string;
  blobs: number;
  copied: number;
  copiedBytes: number;
  removed: string[];
  lacking: string[];
}

test("coreutils can check all of a backup, and only the owner can read it", async () => {
  const { folder, add, ask } = await openBackupRig();
  await add("first");
  const { id } = await ask<Made>("backup", folder);
  const check = (cwd: string, list: string) => Bun.spawnSync(["sha256sum", "--strict", "-c", list], { cwd }).exitCode;
  expect(check(join(folder, "generations", id), "SHA256SUMS")).toBe(0);
  expect(check(folder, `generations/${id}/blobs.sha256`)).toBe(0);
  for (const path of filesOf(folder).keys())
    expect([path, statSync(join(folder, path)).mode & 0o077]).toEqual([path, 0]);
  expect(statSync(join(folder, "generations", id)).mode & 0o077).toBe(0);
});
