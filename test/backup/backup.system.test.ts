/** A backup, checked with system tools: coreutils accept its checksums, and only its owner may read the files. */
import { expect, test } from "bun:test";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { filesOf, openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";

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

const absent = Bun.which("age") === null ? " (skipped: age is not installed)" : "";
test.skipIf(absent !== "")(`age opens what is encrypted for a key of its own${absent}`, async () => {
  const { folder, data, ask, add } = await openBackupRig();
  await add("first");
  const key = join(temporaryFolder(), "key.txt");
  Bun.spawnSync(["age-keygen", "-o", key]);
  const recipient = Bun.spawnSync(["age-keygen", "-y", key]).stdout.toString().trim();
  await ask("settings", "set", "backup.recipients", recipient);
  mkdirSync(join(data, "tls"));
  writeFileSync(join(data, "tls/key.pem"), "key");
  const { id } = await ask<Made>("backup", folder);
  const opened = (path: string) =>
    Bun.spawnSync(["age", "-d", "-i", key, join(folder, "generations", id, path)]).stdout.toString("latin1");
  expect(opened("mailroom.db.age")).toStartWith("SQLite format 3");
  expect(JSON.parse(opened("contents.json.age"))).toEqual({ key: expect.any(String), files: ["tls/key.pem"] });
  expect(opened("files/0.age")).toBe("key");
  expect(await ask("backup", "verify", folder, "--identity", key)).toMatchObject({ ok: true });
});
