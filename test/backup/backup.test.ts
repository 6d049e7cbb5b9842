/** `mailroom backup`: the content of a backup folder, incremental copies, refusals, and the removal of old backups. */
import { expect, test } from "bun:test";
import { cpSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  FORMAT,
  GENERATIONS,
  generationId,
  listGenerations,
  MARKER,
  markerText,
  readBackupState,
} from "../../src/backup/backup-layout.ts";
import { keepNewestGenerations } from "../../src/backup/make.ts";
import { blobPath } from "../../src/store/blobs.ts";
import { claimBlobs, tryLockFile } from "../../src/store/claim.ts";
import { filesOf, openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { START } from "../harness/runtime.ts";

interface Made {
  id: string;
  blobs: number;
  copied: number;
  copiedBytes: number;
  removed: string[];
  lacking: string[];
}

const generationsOf = (folder: string): string[] => [
  ...new Set([...filesOf(folder).keys()].flatMap((path) => /^generations\/([^/]+)\//.exec(path)?.[1] ?? [])),
];

test("a backup has the database, the files that it names, certificates and checksums; only new blobs are copied", async () => {
  const { data, folder, add, ask, within } = await openBackupRig();
  const first = await add("first");
  mkdirSync(join(data, "tls/acme"), { recursive: true });
  writeFileSync(join(data, "tls/acme/account.pem"), "key");
  mkdirSync(join(data, "spool"));
  writeFileSync(join(data, "spool/1.eml"), "passing through");
  // Meilisearch's data, which is made from the mail, and its executable.
  mkdirSync(join(data, "search/data"), { recursive: true });
  writeFileSync(join(data, "search/data/data.mdb"), "made from the mail");
  // What belongs to this folder as the holder of a replica's lease.
  writeFileSync(join(data, "replica.json"), "{}");
  mkdirSync(join(data, "replica"));
  writeFileSync(join(data, "replica/litestream.yml"), "{}");
  mkdirSync(join(data, "bin"));
  writeFileSync(join(data, "bin/meilisearch"), "of this machine");
  await within((store) => store.blobs.write(Buffer.from("named by no row")));

  expect(await ask<Made>("backup", folder)).toMatchObject({ blobs: 1, copied: 1, copiedBytes: 5, removed: [] });
  const second = await add("second");
  const made = await ask<Made>("backup", folder);
  expect(made).toMatchObject({ blobs: 2, copied: 1, copiedBytes: 6, lacking: [], schema: expect.any(Number) });

  const files = filesOf(folder);
  expect([...files.keys()].filter((path) => path.startsWith("blobs/"))).toEqual(
    [first, second].map((name) => blobPath("blobs", name)).sort(),
  );
  expect([...files.keys()].filter((path) => path.startsWith(`generations/${made.id}/`))).toEqual(
    ["SHA256SUMS", "blobs.sha256", "files/tls/acme/account.pem", "mailroom.db", "manifest.json"].map(
      (name) => `generations/${made.id}/${name}`,
    ),
  );
  expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, blobs: 2, bytes: 11, problems: [] });
});

test("the key of sealed secrets is not in a backup, so a thief opens none", async () => {
  const { data, folder, ask } = await openBackupRig();
  mkdirSync(join(data, "keys"));
  writeFileSync(join(data, "keys/second-factor.key"), "the key");
  await ask<Made>("backup", folder);
  expect([...filesOf(folder).keys()].filter((path) => path.endsWith(".key"))).toEqual([]);
});

test("--keep removes the oldest, and the files that only they name", async () => {
  const { folder, add, ask, forgetMail } = await openBackupRig();
  const first = await add("first");
  const { id: oldest } = await ask<Made>("backup", folder);
  await forgetMail();
  const second = await add("second");
  const { id: middle } = await ask<Made>("backup", folder, "--keep", "2");
  const { id: newest, removed } = await ask<Made>("backup", folder, "--keep", "2");
  expect(removed).toEqual([oldest]);
  expect(generationsOf(folder)).toEqual([middle, newest]);
  const files = filesOf(folder);
  expect([first, second].map((name) => files.has(blobPath("blobs", name)))).toEqual([false, true]);
  expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}, {}] });
});

test("no blob is removed while a list of blobs cannot be trusted", async () => {
  const { folder, add, ask, forgetMail } = await openBackupRig();
  const first = await add("first");
  const { id } = await ask<Made>("backup", folder);
  await forgetMail();
  writeFileSync(join(folder, "generations", id, "blobs.sha256"), "");
  await ask("backup", folder);
  expect(filesOf(folder).has(blobPath("blobs", first))).toBe(true);
});

test("missing and damaged blobs of the data folder are reported, and the rest is backed up", async () => {
  const { data, folder, add, say } = await openBackupRig();
  const names = [await add("missing"), await add("damaged"), await add("unreadable"), await add("sound")];
  const [missing = "", damaged = "", unreadable = ""] = names.map((name) => blobPath(join(data, "blobs"), name));
  for (const path of [missing, unreadable]) rmSync(path);
  writeFileSync(damaged, "dAmaged");
  mkdirSync(unreadable);
  const said = await say("backup", folder, "--json");
  expect(said).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("without 3 files") });
  const lacking = names.slice(0, 3).sort();
  expect(JSON.parse(said.stdout)).toMatchObject({ blobs: 1, copied: 1, lacking });
  const verified = await say("backup", "verify", folder, "--json");
  expect(verified.exitCode).toBe(1);
  expect(JSON.parse(verified.stdout).problems).toEqual(
    lacking.map((name) => ({
      file: expect.stringContaining("mailroom.db"),
      problem: `names ${name}, which was missing or damaged in the data folder already`,
    })),
  );
});

test("a server that was killed leaves a WAL: what it had committed is in the backup", async () => {
  const { data, folder, ask, within } = await openBackupRig();
  const killed = join(temporaryFolder(), "killed");
  await within((store) => {
    store.transact((tx) => void tx.$client.run("UPDATE workspaces SET name = 'In the WAL'"));
    // A copy of the folder while the database is open is what a kill leaves.
    cpSync(data, killed, { recursive: true });
  });
  expect(statSync(join(killed, "mailroom.db-wal")).size).toBeGreaterThan(0);
  rmSync(data, { recursive: true });
  renameSync(killed, data);
  await ask("backup", folder);
  rmSync(data, { recursive: true });
  await ask("restore", folder);
  expect(await ask("workspace", "list")).toMatchObject([{ name: "In the WAL" }]);
});

const REFUSED: [what: string, folderOf: (data: string) => string, says: RegExp][] = [
  ["the data folder itself", (data) => data, /is in the data folder/],
  ["a folder in it", (data) => join(data, "backups"), /is in the data folder/],
  ["a link into it", (data) => linkTo(data), /is in the data folder/],
  ["a folder that holds other files", (data) => join(data, ".."), /has other files in it/],
  ["a disk that is not mounted", () => join(temporaryFolder(), "disk", "backups"), /is its disk mounted/],
  ["one of a later format", () => marked(markerText(FORMAT + 1)), /newer Mailroom/],
  ["one with a damaged marker", () => marked('{"format":1'), /is damaged/],
];

function linkTo(data: string): string {
  const link = join(temporaryFolder(), "link");
  symlinkSync(data, link);
  return link;
}

function marked(text: string): string {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "mailroom-backup.json"), text);
  return folder;
}

test.each(REFUSED)("refused: %s", async (_what, folderOf, says) => {
  const { data, say } = await openBackupRig();
  const folder = folderOf(data);
  const before = [...filesOf(data).keys()].filter((path) => path !== "backup.json");
  const said = await say("backup", folder);
  expect(said).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(says), stdout: "" });
  expect([...filesOf(data).keys()].filter((path) => path !== "backup.json")).toEqual(before);
});

test("refused: a data folder without a database, or of a newer version; then nothing is finished", async () => {
  const { data, folder, say, within } = await openBackupRig();
  await within((store) => store.db.$client.exec("PRAGMA user_version = 9999"));
  expect(await say("backup", folder)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("newer Mailroom") });
  expect(generationsOf(folder)).toEqual([]);
  rmSync(join(data, "mailroom.db"));
  expect(await say("backup", folder)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("no database") });
});

test.each(["0", "-1", "1.5", "many"])("wrong usage: --keep=%s", async (keep) => {
  const { folder, say } = await openBackupRig();
  expect(await say("backup", folder, `--keep=${keep}`)).toMatchObject({ exitCode: 2 });
});

test("a file beside the database keeps the last good backup, and a failure since", async () => {
  const { data, folder, ask, say } = await openBackupRig();
  expect(await readBackupState(data)).toEqual({});
  const { id } = await ask<Made>("backup", folder);
  const lastGood = { at: expect.any(Number), folder, generation: id };
  expect(await readBackupState(data)).toEqual({ lastGood });
  await say("backup", data);
  const failed = await readBackupState(data);
  expect(failed).toEqual({
    lastGood,
    lastFailure: {
      at: expect.any(Number),
      folder: data,
      error: expect.stringContaining("in the data folder"),
      told: false,
    },
  });
  const { id: later } = await ask<Made>("backup", folder);
  expect(await readBackupState(data)).toEqual({ lastGood: { ...lastGood, generation: later } });
});

test("one backup at a time writes a backup folder or reads a data folder: another waits, then gives up", async () => {
  const { data, folder, ask, openWith } = await openBackupRig();
  await ask("backup", folder);
  for (const claim of [() => tryLockFile(join(folder, "backup.lock")), () => claimBlobs(data)]) {
    let release = claim();
    let looks = 0;
    const counting = (last: number) => ({
      setTimer(wake: () => void) {
        if (++looks === last) release?.();
        setImmediate(wake);
        return () => {};
      },
    });
    await openWith(counting(3)).ask("backup", folder);
    expect(looks).toBe(3);
    release = claim();
    const said = await openWith(counting(Number.POSITIVE_INFINITY)).say("backup", folder);
    expect(said).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("under way") });
    release?.();
  }
});

const DAY_MS = 86_400_000;

test("backups from the future are removed first, then the oldest", async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, MARKER), markerText(1));
  const ids = [-2, -1, 0, 1, 2].map((days) => generationId(START + days * DAY_MS));
  for (const id of ids) mkdirSync(join(folder, GENERATIONS, id), { recursive: true });
  const kept = async (keep: number | undefined) => {
    await keepNewestGenerations(folder, keep, START);
    return (await listGenerations(folder)).map(({ id }) => ids.indexOf(id));
  };
  expect(await kept(undefined)).toEqual([0, 1, 2, 3, 4]);
  expect(await kept(4)).toEqual([0, 1, 2, 4]);
  expect(await kept(2)).toEqual([1, 2]);
  expect(await kept(1)).toEqual([2]);
});
