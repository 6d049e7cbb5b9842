/** Root backs up and restores in folders of the server's user, who has put links there (src/store/ownership.ts). */
import { expect, test } from "bun:test";
import {
  chownSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { blobPath } from "../../src/store/blobs.ts";
import { claimFolder } from "../../src/store/claim.ts";
import { openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

const isRoot = process.getuid?.() === 0;
const asRoot = test.skipIf(!isRoot);
const only = isRoot ? "" : " (only as root)";

/** Number of a user who is not root. */
const SERVICE = 65_534;

const contents = (folder: string): string[] => readdirSync(folder, { recursive: true, encoding: "utf8" });

function give(folder: string): void {
  chownSync(folder, SERVICE, SERVICE);
  for (const path of contents(folder)) lchownSync(join(folder, path), SERVICE, SERVICE);
}

/** A link that the service's user made. */
function plant(path: string, target: string): void {
  symlinkSync(target, path);
  lchownSync(path, SERVICE, SERVICE);
}

/** A folder with a file, both root's. `check` throws unless both are as they were. */
function rootsOwn() {
  const folder = temporaryFolder();
  const file = join(folder, "secret");
  writeFileSync(file, "root's", { mode: 0o600 });
  return {
    folder,
    file,
    check() {
      expect(readdirSync(folder)).toEqual(["secret"]);
      expect(readFileSync(file, "utf8")).toBe("root's");
      for (const path of [folder, file]) expect(statSync(path).uid).toBe(0);
    },
  };
}

/** Data with an attachment, and an empty backup folder: both the service's. */
async function open() {
  const rig = await openBackupRig();
  await rig.add("an attachment");
  mkdirSync(rig.folder);
  for (const folder of [rig.data, rig.folder]) give(folder);
  return rig;
}

asRoot(`what root backs up and restores belongs to the folder's owner${only}`, async () => {
  const { folder, ask } = await open();
  await ask("backup", folder);
  const restored = openTerminal();
  give(restored.data);
  await restored.ask("restore", folder);
  for (const made of [folder, restored.data]) {
    expect(contents(made).filter((path) => statSync(join(made, path)).uid !== SERVICE)).toEqual([]);
  }
});

asRoot(`a lock that is a link is neither given away nor taken${only}`, () => {
  const own = rootsOwn();
  const data = temporaryFolder();
  give(data);
  plant(join(data, "serving.lock"), own.file);
  expect(() => claimFolder(data)).toThrow("serving.lock is a link of another user");
  own.check();
});

asRoot(`a link in place of an unfinished file is replaced, not followed${only}`, async () => {
  const { data, folder, ask } = await open();
  const own = rootsOwn();
  plant(join(folder, "mailroom-backup.json.unfinished"), own.file);
  plant(join(data, "backup.json.unfinished"), own.file);
  await ask("backup", folder);
  own.check();
});

for (const name of ["blobs", "blobs/zz", "generations"]) {
  asRoot(`a backup does not follow a link in place of its folder ${name}${only}`, async () => {
    const { folder, ask, say, add } = await open();
    await ask("backup", folder);
    await add("another attachment");
    const own = rootsOwn();
    const path = join(folder, name);
    rmSync(path, { recursive: true, force: true });
    plant(path, own.folder);
    expect(await say("backup", folder)).toMatchObject({ exitCode: 1 });
    own.check();
  });
}

asRoot(`a database that is a link is not backed up${only}`, async () => {
  const { data, folder, say } = await open();
  const others = await openBackupRig();
  renameSync(join(data, "mailroom.db"), join(data, "aside.db"));
  plant(join(data, "mailroom.db"), join(others.data, "mailroom.db"));
  expect((await say("backup", folder)).stderr).toContain("mailroom.db is a link of another user");
});

asRoot(`links that root made are followed${only}`, async () => {
  const { folder, ask, add } = await open();
  await ask("backup", folder);
  const moved = join(temporaryFolder(), "blobs");
  renameSync(join(folder, "blobs"), moved);
  symlinkSync(moved, join(folder, "blobs"));
  const blob = await add("another attachment");
  await ask("backup", folder);
  expect(contents(moved)).toContain(blobPath("", blob));
});
