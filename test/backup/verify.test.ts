/** `mailroom backup verify` and `restore` of damaged backups: every changed bit is found, and none is restored. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blobPath } from "../../src/store/blobs.ts";
import { agree, filesOf, openBackupRig } from "../harness/data/backup-rig.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

async function backedUp() {
  const rig = await openBackupRig();
  const names = [await rig.add("first"), await rig.add("second")];
  mkdirSync(join(rig.data, "tls"));
  writeFileSync(join(rig.data, "tls/key.pem"), "key");
  const { id } = await rig.ask<{ id: string }>("backup", rig.folder);
  return { ...rig, names, id, generation: join(rig.folder, "generations", id) };
}

interface Verified {
  ok: boolean;
  generations: { id: string; ok: boolean }[];
  problems: { file: string; problem: string }[];
}

async function expectRefused({ folder }: { folder: string }): Promise<void> {
  const elsewhere = openTerminal();
  expect((await elsewhere.say("restore", folder)).exitCode).toBe(1);
  expect(readdirSync(elsewhere.data).filter((name) => !name.endsWith(".lock"))).toEqual([]);
}

/** Changes the first, a middle and the last byte of every file in the folder. */
test("one changed bit anywhere is found, and prevents a restore", async () => {
  const rig = await backedUp();
  const { folder, say } = rig;
  for (const [path, bytes] of filesOf(folder)) {
    for (const at of new Set([0, bytes.length >> 1, bytes.length - 1])) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      writeFileSync(join(folder, path), changed);
      const said = await say("backup", "verify", folder, "--json");
      expect([path, at, said.exitCode]).toEqual([path, at, 1]);
      const { problems } = said.stdout === "" ? { problems: [] } : (JSON.parse(said.stdout) as Verified);
      const told = path === "mailroom-backup.json" ? said.stderr : problems.map(({ file }) => file).join();
      // If a checksum was changed, its file appears to be the changed one.
      expect(told).toContain(path.replace(/[^/]*SUMS$/, ""));
      await expectRefused(rig);
    }
    writeFileSync(join(folder, path), bytes);
  }
  expect((await say("backup", "verify", folder)).exitCode).toBe(0);
}, 300_000);

const HARMED: [what: string, harm: (rig: Awaited<ReturnType<typeof backedUp>>) => void, says: RegExp][] = [
  [
    "a file of mail is gone",
    ({ folder, names }) => rmSync(blobPath(join(folder, "blobs"), names[0] as string)),
    /blobs\/.*: is missing/,
  ],
  [
    "the database is cut short",
    ({ generation }) => truncateSync(join(generation, "mailroom.db"), 8192),
    /mailroom\.db: is not what was written/,
  ],
  [
    "a certificate is gone",
    ({ generation }) => rmSync(join(generation, "files/tls/key.pem")),
    /files\/tls\/key\.pem: is missing/,
  ],
  ["the checksums are gone", ({ generation }) => rmSync(join(generation, "SHA256SUMS")), /SHA256SUMS: is missing/],
  [
    "a list is cut short",
    ({ generation }) => truncateSync(join(generation, "blobs.sha256"), 138),
    /blobs\.sha256: is not what/,
  ],
];

test.each(HARMED)("%s", async (_what, harm, says) => {
  const rig = await backedUp();
  harm(rig);
  const said = await rig.say("backup", "verify", rig.folder);
  expect(said).toMatchObject({
    exitCode: 1,
    stdout: expect.stringMatching(says),
    stderr: expect.stringContaining("is damaged: "),
  });
  await expectRefused(rig);
});

test("a database that fails SQLite's check, though its checksum is right", async () => {
  const rig = await backedUp();
  const path = join(rig.generation, "mailroom.db");
  const bytes = filesOf(rig.generation).get("mailroom.db") ?? Buffer.alloc(0);
  writeFileSync(path, Buffer.concat([bytes.subarray(0, 8192), Buffer.alloc(4096, 7), bytes.subarray(12288)]));
  agree(rig.generation);
  expect((await rig.say("backup", "verify", rig.folder)).exitCode).toBe(1);
  await expectRefused(rig);
});

test("a row that names a file which the backup does not list", async () => {
  const rig = await backedUp();
  writeFileSync(join(rig.generation, "blobs.sha256"), "");
  agree(rig.generation);
  const { stdout } = await rig.say("backup", "verify", rig.folder);
  for (const name of rig.names) expect(stdout).toContain(`lacks ${name}, which the database names`);
  await expectRefused(rig);
});

test("tells which of several backups are whole; --generation reads one of them", async () => {
  const { folder, say, ask, add, id, generation } = await backedUp();
  await add("third");
  const { id: later } = await ask<{ id: string }>("backup", folder);
  rmSync(join(generation, "files/tls/key.pem"));
  const { ok, generations } = JSON.parse((await say("backup", "verify", folder, "--json")).stdout) as Verified;
  expect({ ok, generations: generations.map(({ id, ok }) => [id, ok]) }).toEqual({
    ok: false,
    generations: [
      [id, false],
      [later, true],
    ],
  });
  expect(await ask<Verified>("backup", "verify", folder, "--generation", later)).toMatchObject({ ok: true });
  expect(await say("backup", "verify", folder, "--generation", "x")).toMatchObject({ exitCode: 1 });
});

test("a damaged blob that two backups name makes both bad, and is reported once", async () => {
  const { folder, say, ask, names } = await backedUp();
  await ask("backup", folder);
  rmSync(blobPath(join(folder, "blobs"), names[0] as string));
  const verified = JSON.parse((await say("backup", "verify", folder, "--json")).stdout) as Verified;
  expect(verified.generations.map(({ ok }) => ok)).toEqual([false, false]);
  expect(verified.problems).toHaveLength(1);
});

interface Copied {
  copied: number;
  mended: number;
  lacking: string[];
}

test("a blob damaged in the backup is copied anew: by its size at the next backup, by its content with --reread", async () => {
  const { folder, say, ask, names } = await backedUp();
  const [first, second] = names.map((name) => blobPath(join(folder, "blobs"), name)) as [string, string];
  truncateSync(first, 2);
  writeFileSync(second, "sEcond");
  expect(await ask<Copied>("backup", folder)).toMatchObject({ copied: 1, mended: 1 });
  const verified = await say("backup", "verify", folder);
  expect([verified.exitCode, verified.stderr]).toEqual([
    1,
    `mailroom: the backup is damaged: 1 problem; mailroom backup ${folder} --reread copies anew what the data folder still has\n`,
  ]);
  expect(await ask<Copied>("backup", folder)).toMatchObject({ copied: 0, mended: 0 });
  expect(await ask<Copied>("backup", folder, "--reread")).toMatchObject({ copied: 1, mended: 1 });
  expect(await ask<Verified>("backup", "verify", folder)).toMatchObject({ ok: true });
  expect([first, second].map((path) => readFileSync(path, "utf8"))).toEqual(["first", "second"]);
});

test("a blob damaged on both sides is reported, and no worse than it was", async () => {
  const { folder, data, say, names } = await backedUp();
  const name = names[0] as string;
  const inBackup = blobPath(join(folder, "blobs"), name);
  writeFileSync(inBackup, "f1rst");
  writeFileSync(blobPath(join(data, "blobs"), name), "f2rst");
  const said = await say("backup", folder, "--reread", "--json");
  expect([said.exitCode, said.stderr]).toEqual([
    1,
    expect.stringContaining("without 1 files that are missing or damaged"),
  ]);
  expect(JSON.parse(said.stdout)).toMatchObject({ copied: 0, mended: 0, lacking: [name] });
  expect(readFileSync(inBackup, "utf8")).toBe("f1rst");
});

test("a blob that is damaged in the data folder alone stays whole in the backup, and is not lacking", async () => {
  const { folder, data, ask, names } = await backedUp();
  const [first = "", second = ""] = names;
  truncateSync(blobPath(join(data, "blobs"), first), 2);
  rmSync(blobPath(join(data, "blobs"), second));
  expect(await ask<Copied>("backup", folder)).toMatchObject({ copied: 0, mended: 0, lacking: [] });
  expect(await ask<Verified>("backup", "verify", folder)).toMatchObject({ ok: true });
});

test("an interrupted backup's leftovers are no backup, and do not make the others bad", async () => {
  const { folder, ask, generation } = await backedUp();
  mkdirSync(join(generation, "../.20300101T000000000Z"));
  mkdirSync(join(folder, "blobs/ff"), { recursive: true });
  writeFileSync(join(folder, `blobs/ff/${"f".repeat(62)}.unfinished`), "half");
  expect(await ask<Verified>("backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}] });
  await ask("backup", folder);
  expect(existsSync(join(generation, "../.20300101T000000000Z"))).toBe(false);
  expect([...filesOf(folder).keys()].filter((path) => path.includes(".unfinished"))).toEqual([]);
});

test("a folder that is no backup", async () => {
  const { data, say } = await openBackupRig();
  for (const line of [
    ["backup", "verify", data],
    ["restore", data],
  ]) {
    expect(await say(...line)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("is no Mailroom backup") });
  }
});
