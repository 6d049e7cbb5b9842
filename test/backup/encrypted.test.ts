/** Encrypted backups: only private keys open them, and they are incremental, verified and pruned as others are. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { FORMAT, type Manifest, PLAIN_FORMAT } from "../../src/backup/backup-layout.ts";
import { blobPath } from "../../src/store/blobs.ts";
import { agree, filesOf, openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

interface Made extends Manifest {
  id: string;
  copied: number;
  copiedBytes: number;
  mended: number;
}

/** Text in rows of the database, and in a file of mail. */
const SECRETS = [
  "A large file",
  "ada@acme.test",
  "the content of a file",
  "dan@remote.example",
  "a key of TLS",
  "tls/mail",
];

async function openEncrypted() {
  const rig = await openBackupRig();
  const keys = temporaryFolder();
  const makeKey = async (name: string) => {
    const file = join(keys, name);
    return { file, ...(await rig.ask<{ recipient: string }>("backup", "key", file)) };
  };
  const key = await makeKey("one.txt");
  await rig.ask("settings", "set", "backup.recipients", key.recipient);
  const blob = await rig.add("the content of a file");
  mkdirSync(join(rig.data, "tls"));
  writeFileSync(join(rig.data, "tls/mail.pem"), "a key of TLS");
  const generation = ({ id }: Made): string => join(rig.folder, "generations", id);
  const back = () => rig.ask<Made>("backup", rig.folder);
  return { ...rig, key, makeKey, blob, generation, back, elsewhere: openTerminal() };
}

test("a private key is a file of its own, which no command overwrites", async () => {
  const { key, say } = await openEncrypted();
  expect(key.recipient).toMatch(/^age1[0-9a-z]{58}$/);
  expect(readFileSync(key.file, "utf8")).toMatch(
    new RegExp(`^# public key: ${key.recipient}\nAGE-SECRET-KEY-1[0-9A-Z]{58}\n$`),
  );
  expect(statSync(key.file).mode & 0o777).toBe(0o600);
  expect(await say("backup", "key", key.file)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining(key.file),
  });
});

test("nothing of the data is in the folder: no text, no name of a file, no hash of one, and no private key", async () => {
  const { data, folder, back, blob, generation } = await openEncrypted();
  const made = await back();
  expect(made).toMatchObject({
    format: FORMAT,
    blobs: 1,
    copied: 1,
    lacking: [],
    recipients: [expect.any(String)],
  });
  const files = filesOf(folder);
  expect(
    [...files.keys()]
      .filter((path) => path.startsWith(`generations/${made.id}/`))
      .map((path) => path.slice(12 + made.id.length)),
  ).toEqual(
    [
      "SHA256SUMS",
      "blobs.sha256",
      "contents.json.age",
      "files/0.age",
      "mailroom.db.age",
      "manifest.json",
      "names.db",
    ].map((name) => `/${name}`),
  );
  expect(readFileSync(join(folder, "mailroom-backup.json"), "utf8")).toBe(`{"format":${FORMAT}}\n`);
  for (const [path, bytes] of files) {
    for (const secret of [...SECRETS, blob, blob.slice(2), "AGE-SECRET"]) {
      expect([path, secret, path.includes(secret) || bytes.includes(secret)]).toEqual([path, secret, false]);
    }
  }
  // The checksums alone, as `sha256sum -c` checks them.
  const sum = (path: string) => new Bun.CryptoHasher("sha256").update(files.get(path) ?? "").digest("hex");
  for (const line of readFileSync(join(generation(made), "blobs.sha256"), "utf8")
    .trim()
    .split("\n")) {
    const [hash, path] = line.split("  ") as [string, string];
    expect(sum(path)).toBe(hash);
  }
  expect(readdirSync(data).filter((name) => name.includes("snapshot"))).toEqual([]);
});

test("all is back with the private key", async () => {
  const { data, folder, key, back, ask, elsewhere } = await openEncrypted();
  mkdirSync(join(data, "keys"), { recursive: true });
  writeFileSync(join(data, "keys/second-factor.key"), "0".repeat(32), { mode: 0o600 });
  writeFileSync(join(data, "keys/other"), "a key that no backup has");
  const { id } = await back();
  expect(await elsewhere.ask("restore", folder, "--identity", key.file)).toMatchObject({
    id,
    blobs: 1,
    lacking: [],
    held: 1,
  });
  expect(await elsewhere.ask("user", "list")).toEqual(await ask("user", "list"));
  const but = (path: string) => !/^(mailroom\.db|backup\.json|keys\/)/.test(path);
  const [before, after] = [filesOf(data), filesOf(elsewhere.data)];
  expect([...after].filter(([path]) => but(path))).toEqual([...before].filter(([path]) => but(path)));
  // The key of the names is of one data folder. The other opens second factors, and the private key protects it.
  expect([...after.keys()].filter((path) => path.startsWith("keys/"))).toEqual(["keys/second-factor.key"]);
  expect(after.get("keys/second-factor.key")?.toString()).toBe("0".repeat(32));
  for (const path of after.keys()) expect([path, statSync(join(elsewhere.data, path)).mode & 0o077]).toEqual([path, 0]);
});

test("without the key, or with another, nothing is restored, and the refusal says which key it is", async () => {
  const { folder, key, makeKey, back, elsewhere, ask } = await openEncrypted();
  const { id } = await back();
  const other = await makeKey("other.txt");
  const empty = join(temporaryFolder(), "empty");
  writeFileSync(empty, "# nothing\n");
  const refusal = `mailroom: backup ${id} is encrypted: give --identity FILE, with the private key of ${key.recipient}\n`;
  for (const [given, stderr] of [
    [[], refusal],
    [["--identity", other.file], refusal],
    [["--identity", empty], `mailroom: ${empty} has no identity of age, a line AGE-SECRET-KEY-1…, that can be read\n`],
  ] as const) {
    expect(await elsewhere.say("restore", folder, ...given)).toEqual({ exitCode: 1, stdout: "", stderr });
    expect(readdirSync(elsewhere.data)).toEqual([]);
  }
  // Whoever has no key can still check that nothing is damaged.
  expect(await ask("backup", "verify", folder)).toMatchObject({ ok: true, blobs: 1 });
  const said = await elsewhere.say("backup", "verify", folder, "--identity", other.file);
  expect([said.exitCode, said.stdout]).toEqual([
    1,
    expect.stringContaining("is encrypted for others than the identity given"),
  ]);
});

test("only new files are copied; damaged ones are mended, and every file is encrypted anew for other keys", async () => {
  const { data, folder, key, makeKey, back, add, ask, say, generation, elsewhere } = await openEncrypted();
  await back();
  await add("a second file");
  expect(await back()).toMatchObject({ blobs: 2, copied: 1, copiedBytes: 13, mended: 0 });

  const [stored] = [...filesOf(folder).keys()].filter((path) => path.startsWith("blobs/"));
  const bytes = readFileSync(join(folder, stored as string));
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  writeFileSync(join(folder, stored as string), bytes);
  expect(await back()).toMatchObject({ copied: 0 });
  expect(await ask("backup", folder, "--reread")).toMatchObject({ copied: 1, mended: 1 });
  truncateSync(join(folder, stored as string), 10);
  expect(await ask("backup", folder, "--keep", "1")).toMatchObject({ blobs: 2, copied: 0 });
  expect(await ask("backup", "verify", folder, "--identity", key.file)).toMatchObject({ ok: true, blobs: 2 });

  const two = await makeKey("two.txt");
  await ask("settings", "set", "backup.recipients", `${two.recipient},${key.recipient}`);
  expect(await back()).toMatchObject({ copied: 2, recipients: [key.recipient, two.recipient].sort() });
  expect(await back()).toMatchObject({ copied: 0 });
  // Without its key the names mean nothing.
  rmSync(join(data, "keys/backup-names"));
  const last = await ask<Made>("backup", folder, "--keep", "1");
  expect(last).toMatchObject({ copied: 2 });
  expect(readdirSync(join(folder, "generations"))).toEqual([last.id]);
  expect([...filesOf(folder).keys()].filter((path) => path.startsWith("blobs/")).length).toBe(2);
  expect((await say("backup", "verify", folder)).exitCode).toBe(0);
  expect(existsSync(join(generation(last), "names.db"))).toBe(true);
  await elsewhere.ask("restore", folder, "--identity", two.file);
});

test("a folder has generations of both kinds, each restored as it is", async () => {
  const { folder, key, back, ask, elsewhere } = await openEncrypted();
  await ask("settings", "reset", "backup.recipients");
  const plain = await back();
  expect([plain.format, plain.recipients]).toEqual([PLAIN_FORMAT, undefined]);
  expect(readFileSync(join(folder, "mailroom-backup.json"), "utf8")).toBe(`{"format":${PLAIN_FORMAT}}\n`);
  await ask("settings", "set", "backup.recipients", key.recipient);
  const encrypted = await back();
  await ask("settings", "reset", "backup.recipients");
  expect(await back()).toMatchObject({ copied: 0 });
  expect(await ask("backup", "verify", folder)).toMatchObject({
    ok: true,
    blobs: 2,
    generations: [{ id: plain.id }, { id: encrypted.id, recipients: [key.recipient] }, {}],
  });
  expect(await elsewhere.ask("restore", folder, "--generation", plain.id)).toMatchObject({ blobs: 1 });
});

test("a setting that this version does not understand encrypts nothing by halves: there is no backup", async () => {
  const { folder, within, say } = await openEncrypted();
  await within(
    ({ db }) => void db.$client.run("UPDATE options SET value = 'age1other' WHERE name = 'backup.recipients'"),
  );
  expect(await say("backup", folder)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("give up to 16 public keys"),
  });
  expect(readdirSync(join(folder, "generations"))).toEqual([]);
});

test("a public key with a wrong character is refused", async () => {
  const { key, say } = await openEncrypted();
  const last = key.recipient.endsWith("q") ? "p" : "q";
  for (const text of [`${key.recipient.slice(0, -1)}${last}`, "age1", "", "me"]) {
    expect((await say("settings", "set", "backup.recipients", text)).stderr).toContain("backup.recipients cannot be");
  }
});

test("what the data folder has lost is named when it is restored, and no name of it is in the backup", async () => {
  const { data, folder, key, blob, say, elsewhere } = await openEncrypted();
  rmSync(blobPath(join(data, "blobs"), blob));
  const said = await say("backup", folder, "--json");
  expect([said.exitCode, said.stdout.includes(blob)]).toEqual([1, false]);
  expect(await elsewhere.ask("restore", folder, "--identity", key.file)).toMatchObject({ blobs: 0, lacking: [blob] });
});

describe("damage is found and not restored", () => {
  test("one changed bit anywhere", async () => {
    const { folder, key, say, back, elsewhere } = await openEncrypted();
    await back();
    for (const [path, bytes] of filesOf(folder)) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
      writeFileSync(join(folder, path), changed);
      for (const given of [[], ["--identity", key.file]]) {
        expect([path, (await say("backup", "verify", folder, ...given)).exitCode]).toEqual([path, 1]);
      }
      expect([path, (await elsewhere.say("restore", folder, "--identity", key.file)).exitCode]).toEqual([path, 1]);
      expect(readdirSync(elsewhere.data).filter((name) => !name.endsWith(".lock"))).toEqual([]);
      writeFileSync(join(folder, path), bytes);
    }
    await elsewhere.ask("restore", folder, "--identity", key.file);
  });

  test("names that lead to other files, with checksums that agree", async () => {
    const { folder, key, add, back, generation, ask, say, elsewhere } = await openEncrypted();
    await add("a second file");
    const made = await back();
    const names = new Database(join(generation(made), "names.db"));
    const rows = names.query("SELECT name, stored FROM names").all() as { name: string; stored: string }[];
    expect(rows.length).toBe(2);
    rows.forEach(({ name }, i) => {
      names.query("UPDATE names SET stored = ? WHERE name = ?").run(rows[1 - i]?.stored ?? "", name);
    });
    names.close();
    agree(generation(made));
    const said = await elsewhere.say("restore", folder, "--identity", key.file);
    expect([said.exitCode, said.stderr]).toEqual([1, expect.stringContaining("is damaged")]);

    const gone = new Database(join(generation(made), "names.db"));
    gone.query("UPDATE names SET stored = ? WHERE name = ?").run("../../../etc/passwd", rows[0]?.name ?? "");
    gone.close();
    agree(generation(made));
    expect((await say("backup", "verify", folder)).stdout).toContain("blobs.sha256: and names.db disagree about");
    expect((await elsewhere.say("restore", folder, "--identity", key.file)).exitCode).toBe(1);
    await ask("backup", folder, "--keep", "1");
    await elsewhere.ask("restore", folder, "--identity", key.file);
  });
});
