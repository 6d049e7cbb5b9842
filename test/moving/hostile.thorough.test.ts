/** An export that somebody edited, to take, read or send what belongs to another workspace of the server that imports it. */
import { Database } from "bun:sqlite";
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { packSkeleton } from "../../src/message/skeleton.ts";
import { apiClient } from "../harness/clients/api.ts";
import { peek } from "../harness/data/table-rows.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { zone, zoneOf } from "../harness/peers/dns-server.ts";
import {
  copySource,
  exportTo,
  importFrom,
  makeSource,
  newExport,
  openPlace,
  type Place,
  type Source,
} from "../harness/servers/moving-world.ts";
import { agree, copyOf, editExport, editManifest, generationOf, writeBlob } from "./moving-export.ts";

setDefaultTimeout(30_000);

let made: string;
let left: Source;
beforeAll(async () => {
  await makeSource();
  made = newExport();
  left = await copySource();
  await exportTo(left, made, "--final");
  // A server with another workspace alone.
  await left.ask("workspace", "remove", "Example");
});

const queueOf = ({ data }: Place, where = "") =>
  peek(data, (db) =>
    db
      .query(
        `SELECT e.state, e.attempts, e.reply FROM queue_entries e JOIN outbound_messages m ON m.seq = message_seq
         WHERE m.mailbox LIKE '%@example.test' ${where} ORDER BY e.id`,
      )
      .all(),
  ) as { state: string; attempts: number; reply: string | null }[];

describe("its domains are claims", () => {
  test("until the operator says so nothing is taken or sent under them, whoever releases the queue", async () => {
    const place = openPlace();
    const said = await place.say("workspace", "import", copyOf(made));
    expect(said.stdout).toContain(
      "example.test takes and sends no mail here until mailroom domain verify example.test",
    );
    const served = await place.serve({});
    const api = apiClient(served.http, left.key);
    expect((await api.post("/send", { ...left.sent.body, subject: "Now" })).status).toBe(422);
    const sender = mailer(served.mx);
    const refused = await sender
      .send({ from: "carol@remote.example", to: "alice@example.test" }, letter({ to: "alice@example.test" }))
      .catch((error) => error);
    expect(refused.response).toStartWith("451 4.7.1 example.test is not verified here yet");
    sender.close();
    for (let day = 0; day < 3; day++) await served.advance(86_400_000);
    expect(queueOf(place).map(({ state, attempts }) => [state, attempts])).toEqual([
      ["held", 0],
      ["held", 0],
      ["held", 0],
    ]);
    const { queue } = (await api.get<{ queue: { id: string }[] }>("/api/admin/v1/queue")).body;
    for (const { id } of queue) expect((await api.post(`/api/admin/v1/queue/${id}/retry`, {})).status).toBe(200);
    await served.server.settled();
    for (const { reply } of queueOf(place)) {
      expect(reply).toBe("451 4.7.1 The domain that this is from is not verified here");
    }
    await served.server.stop(0);
  });

  test("what waits is sent once the domain is verified", async () => {
    const place = openPlace();
    await importFrom(place, copyOf(made));
    await place.ask("domain", "verify", "second.test", "--skip-dns");
    expect(queueOf(place).map(({ state }) => state)).toEqual(["held", "held", "held"]);
    await place.ask("domain", "verify", "example.test", "--skip-dns");
    expect(queueOf(place).map(({ state }) => state)).toEqual(["waiting", "waiting", "waiting"]);
  });

  /** Records as the old server asked for them. */
  const recordsOf = async () =>
    (await copySource()).ask<{ type: string; name: string; value: string }[]>("domain", "dns", "example.test");
  const placeSeeing = (records: Awaited<ReturnType<typeof recordsOf>>) =>
    openPlace(undefined, undefined, zone(zoneOf(records)));

  test("until their records are seen, which the import looks up", async () => {
    const place = placeSeeing(await recordsOf());
    expect(await importFrom(place, made)).toMatchObject({ unverified: ["second.test"] });
    expect(queueOf(place).map(({ state }) => state)).toEqual(["waiting", "waiting", "waiting"]);
  });

  test("the public token alone proves nothing", async () => {
    const records = (await recordsOf()).filter(({ name }) => !name.includes("_domainkey"));
    expect(await importFrom(placeSeeing(records), made)).toMatchObject({ unverified: ["example.test", "second.test"] });
  });
});

/** Renames a domain that no address is at. `name`: as in a string of SQL. */
const renameDomain = (folder: string, name: string) =>
  editExport(folder, `UPDATE domains SET name = '${name}' WHERE name = 'second.test'`);
const otherKey = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
const weakKey = generateKeyPairSync("rsa", { modulusLength: 512 });
const OTHER_FROM =
  "CAST(replace(CAST(bytes AS TEXT), 'From: Alice <alice@example.test>', 'From: <boss@other.test>') AS BLOB)";
const journal = (folder: string) => writeFileSync(join(generationOf(folder), "mailroom.db-journal"), "x");
const database = (folder: string) => join(generationOf(folder), "mailroom.db");
function setBody(folder: string, packed: Uint8Array): void {
  const db = new Database(database(folder));
  db.query("UPDATE message_bodies SET html_source = ?").run(packed);
  db.close();
  agree(folder);
}

test.each<[string, (folder: string) => void, RegExp]>([
  [
    "a published key without the private one",
    (folder) => editExport(folder, `UPDATE dkim_keys SET private_key = '${otherKey}' WHERE algorithm = 'ed25519'`),
    /the DKIM keys of example.test/,
  ],
  ["no key", (folder) => editExport(folder, "DELETE FROM dkim_keys"), /dkim_keys|the DKIM keys/],
  [
    "a key that anybody breaks",
    (folder) =>
      editExport(
        folder,
        `UPDATE dkim_keys SET private_key = '${weakKey.privateKey.export({ type: "pkcs8", format: "pem" })}',
           public_key = '${weakKey.publicKey.export({ type: "spki", format: "der" }).toString("base64")}' WHERE algorithm = 'rsa'`,
      ),
    /the DKIM keys/,
  ],
  [
    "a return path at another domain",
    (folder) =>
      editExport(folder, "UPDATE outbound_messages SET return_path = replace(return_path, 'example', 'other')"),
    /a row of outbound_messages/,
  ],
  [
    "a queued message in the name of somebody else",
    (folder) => editExport(folder, `UPDATE outbound_contents SET bytes = ${OTHER_FROM}`),
    /a message of the queue is from other.test, not example.test/,
  ],
  [
    "a queued message with two authors",
    (folder) =>
      editExport(
        folder,
        `UPDATE outbound_contents SET bytes = CAST('From: <boss@other.test>' || char(13, 10) || CAST(bytes AS TEXT) AS BLOB)`,
      ),
    /the header of a message that is to be sent/,
  ],
  [
    "a held message in the name of somebody else",
    (folder) => editExport(folder, `UPDATE holds SET bytes = ${OTHER_FROM}`),
    /a held message is from other.test/,
  ],
  [
    "an address at another domain",
    (folder) => editExport(folder, "UPDATE addresses SET address = 'boss@other.test' WHERE kind = 'alias'"),
    /a row of addresses/,
  ],
  ["a domain that is a path", (folder) => renameDomain(folder, "../../x"), /the name of a domain/],
  ["a domain that another one is spelt as", (folder) => renameDomain(folder, "Other.Test"), /the name of a domain/],
  [
    "a password that takes 4 GB to check",
    (folder) =>
      editExport(
        folder,
        "UPDATE users SET password_hash = '$argon2id$v=19$m=4194304,t=100,p=1$' || hex(randomblob(16)) || '$' || hex(randomblob(32))",
      ),
    /the password of/,
  ],
  [
    "a webhook to something else than HTTP",
    (folder) => editExport(folder, "UPDATE webhook_endpoints SET url = 'file:///etc/passwd'"),
    /the webhook file/,
  ],
  [
    "rules without end",
    (folder) =>
      editExport(
        folder,
        `UPDATE mailbox_rules SET rules = (SELECT json_group_array(json('{"match":"word","actions":[{"type":"archive"}],"enabled":true}'))
           FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n))`,
      ),
    /a row of mailbox_rules/,
  ],
  [
    "a role that there is not",
    (folder) => editExport(folder, "PRAGMA ignore_check_constraints = ON; UPDATE users SET role = 'root'"),
    /damaged/,
  ],
  [
    "an id that is markup",
    (folder) => editExport(folder, "UPDATE attachments SET id = 'att_\"><script>' || message_seq"),
    /a row of attachments/,
  ],
  [
    "a number in place of addresses",
    (folder) => editExport(folder, "UPDATE messages SET cc = '5'"),
    /a row of messages/,
  ],
  [
    "addresses that are none",
    (folder) => editExport(folder, `UPDATE threads SET participants = '[{"name":"x"}]'`),
    /a row of threads/,
  ],
  [
    "parameters of a file that are none",
    (folder) => editExport(folder, `UPDATE attachments SET parameters = '[["charset",5]]'`),
    /a row of attachments/,
  ],
  ...[
    ...['[[5,2,"bcc"]]', '[[-1,2,"bcc"]]', '[[0.5,2,"bcc"]]', '[[1,2,"x"]]', "[[1,2]]", "5"],
    ...['[[0,9000000,"bcc"]]', '[[5,9,"bcc"],[0,2,"bcc"]]', '[[0,6,"bcc"],[5,9,"bcc"]]'],
    JSON.stringify(Array.from({ length: 101 }, (_, n) => [n, n + 1, "bcc"])),
  ].map((hidden): [string, (folder: string) => void, RegExp] => [
    `hidden octets ${hidden.slice(0, 40)}, which are none`,
    (folder) => editExport(folder, `UPDATE message_octets SET hidden = '${hidden}'`),
    /a row of message_octets/,
  ]),
  ...[
    ...["size = -5", "size = 4000000000", "digest = x'00'", "served_digest = x'00'", "skeleton = NULL"],
    ...["blob = printf('%064d', 0)", "skeleton = zeroblob(70000)", "envelope = printf('%05000d', 0)"],
  ].map((change): [string, (folder: string) => void, RegExp] => [
    `octets with ${change}`,
    (folder) => editExport(folder, `UPDATE message_octets SET ${change} WHERE blob IS NULL`),
    /a row of message_octets/,
  ]),
  ...(["attachments", "message_octets"] as const).map((table): [string, (folder: string) => void, RegExp] => [
    `a file that is larger than its row of ${table} says`,
    (folder) => editExport(folder, `UPDATE ${table} SET size = 5 WHERE blob IS NOT NULL`),
    /damaged .blobs.\w+ has another size than its row says/,
  ]),
  [
    "octets in a blob of another place",
    (folder) => editExport(folder, "UPDATE message_octets SET blob = '../keys'"),
    /a row of message_octets/,
  ],
  ["a body that does not unpack", (folder) => setBody(folder, Buffer.from("no zstd")), /a row of message_bodies/],
  ["a journal beside the database", journal, /mailroom.db-journal does not belong there/],
  [
    "a database with a log beside it",
    (folder) => editExport(folder, "PRAGMA journal_mode = WAL"),
    /has a log beside it|does not belong there/,
  ],
  [
    "a link in place of the database",
    (folder) => {
      renameSync(database(folder), join(folder, "elsewhere.db"));
      symlinkSync(join(folder, "elsewhere.db"), database(folder));
    },
    /mailroom.db is no plain file/,
  ],
  [
    "a device in place of the manifest",
    (folder) => {
      const path = join(generationOf(folder), "manifest.json");
      rmSync(path);
      symlinkSync("/dev/zero", path);
    },
    /manifest.json is no plain file/,
  ],
  ["what it lacks by a path", (folder) => editManifest(folder, { lacking: ["../../x"] }), /manifest.json is not one/],
])("refused: %s", async (_, spoil, refusal) => {
  const folder = copyOf(made);
  spoil(folder);
  const place = openPlace();
  const { exitCode, stderr, stdout } = await place.say("workspace", "import", folder);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(refusal);
  expect(peek(place.data, (db) => db.query("SELECT count(*) AS n FROM users").get())).toEqual({ n: 0 });
  // The honest one goes on beside it.
  expect(await importFrom(place, made)).toMatchObject({ served: true });
});

describe("octets that are not those of the row are never served", () => {
  type Row = { seq: number; size: number };
  /** Replaces what the row of "Question", which has a file, or of "Long", whose octets are one, has. */
  function replace(folder: string, subject: string, by: (row: Row) => { skeleton?: Uint8Array; blob?: string }): void {
    const db = new Database(database(folder));
    const row = db
      .query<Row, [string]>(
        "SELECT message_seq AS seq, o.size FROM message_octets o JOIN messages ON seq = message_seq WHERE subject = ?",
      )
      .get(subject);
    if (!row) throw new Error(`there is no ${subject}`);
    const { skeleton = null, blob = null } = by(row);
    db.query("UPDATE message_octets SET skeleton = ?, blob = ? WHERE message_seq = ?").run(skeleton, blob, row.seq);
    db.close();
    agree(folder);
  }
  const cutTo = (position: number, size: number): Uint8Array =>
    packSkeleton({ bytes: new Uint8Array(), cuts: [{ at: 0, position, size, lineLength: 0, lineEnd: "\r\n" }] });

  test.each<[string, string, (folder: string, row: Row) => { skeleton?: Uint8Array; blob?: string }]>([
    [
      "other octets of that size",
      "Question",
      (_, { size }) => ({
        skeleton: packSkeleton({ bytes: new Uint8Array(size).fill(65), cuts: [] }),
      }),
    ],
    ["octets of another size", "Question", () => ({ skeleton: packSkeleton({ bytes: Buffer.from("x"), cuts: [] }) })],
    ["a file that there is not", "Question", (_, { size }) => ({ skeleton: cutTo(7, size) })],
    ["a file of another size", "Question", (_, { size }) => ({ skeleton: cutTo(0, size) })],
    ["no skeleton", "Question", () => ({ skeleton: Buffer.alloc(60_000, 7) })],
    ["no skeleton in the file", "Long", (folder) => ({ blob: writeBlob(folder, Buffer.alloc(100_000, 7)) })],
    [
      "other octets in the file",
      "Long",
      (folder, { size }) => ({
        blob: writeBlob(folder, packSkeleton({ bytes: randomBytes(size), cuts: [] })),
      }),
    ],
    [
      "a gigabyte of nothing in the file",
      "Long",
      (folder) => {
        const frame = Bun.zstdCompressSync(new Uint8Array(2 ** 30));
        const body = Buffer.concat([Buffer.from([0x80, 0x80, 0x80, 0x80, 0x04]), frame]);
        const head = Buffer.alloc(5);
        head.writeUInt8(1);
        head.writeUInt32LE(crc32(body), 1);
        return { blob: writeBlob(folder, Buffer.concat([head, body])) };
      },
    ],
  ])("%s", async (_, subject, by) => {
    const folder = copyOf(made);
    replace(folder, subject, (row) => by(folder, row));
    const place = openPlace();
    expect(await importFrom(place, folder)).toMatchObject({ served: true });
    const served = await place.serve();
    const rss = process.memoryUsage().rss;
    try {
      const api = apiClient(served.http, left.key);
      const { messages } = (await api.get<{ messages: { id: string; subject: string }[] }>("/messages?limit=100")).body;
      const refused = messages.filter((one) => one.subject === subject);
      expect(refused).toHaveLength(1);
      for (const { id } of messages.filter((one) => one.subject.startsWith(subject))) {
        const { status } = await api.bytes(`/api/ext/v1/messages/${id}/original`);
        expect([id, status]).toEqual([id, id === refused[0]?.id ? 500 : 200]);
        expect((await api.get(`/messages/${id}`)).status).toBe(200);
      }
      expect((await fetch(`${served.http}/healthz`)).status).toBe(200);
      expect(process.memoryUsage().rss - rss).toBeLessThan(300 * 1024 * 1024);
    } finally {
      await served.server.stop(0);
    }
  });
});

test("a body of a quarter of a gigabyte of nothing is unpacked to no more than a message may have", async () => {
  const folder = copyOf(made);
  setBody(folder, Bun.zstdCompressSync(Buffer.alloc(256 * 1024 * 1024)));
  const place = openPlace();
  Bun.gc(true);
  const before = process.memoryUsage().rss;
  expect((await place.say("workspace", "import", folder)).stderr).toContain("a row of message_bodies");
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
});

/** A server with the other workspace, Others Ltd, alone. */
function othersPlace(): Place {
  const data = copyOf(left.data);
  return openPlace(data);
}

describe("what another workspace has here", () => {
  const THEIRS = {
    user: "SELECT id FROM users",
    mailbox: "SELECT id FROM mailboxes",
    thread: "SELECT id FROM threads",
    message: "SELECT id FROM messages WHERE kind = 'received'",
    key: "SELECT id FROM api_keys",
  };
  test.each<[string, string, keyof typeof THEIRS]>([
    ["outbound_messages", "mailbox_id", "mailbox"],
    ["outbound_messages", "thread_id", "thread"],
    ["key_changes", "mailbox_id", "mailbox"],
    ["key_changes", "thread_id", "thread"],
    ["drafts", "due_by", "user"],
    ["drafts", "due_key", "key"],
    ["holds", "answers", "thread"],
    ["holds", "user_id", "user"],
    ["messages", "sent_by", "user"],
    ["events", "email_id", "message"],
    ["api_keys", "made_by", "key"],
    ["webhook_endpoints", "made_by", "key"],
  ])("is not named by %s.%s", async (table, column, kind) => {
    const place = othersPlace();
    const theirs = peek(place.data, (db) => db.query(THEIRS[kind]).get()) as { id: string };
    const folder = copyOf(made);
    editExport(folder, `UPDATE ${table} SET ${column} = '${theirs.id}'`);
    expect(await place.say("workspace", "import", folder)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(`a row of ${table} names what another workspace has here`),
    });
    expect(await importFrom(place, made)).toMatchObject({ served: true });
  });

  test("is no domain of a sign-in address", async () => {
    const folder = copyOf(made);
    editExport(folder, "UPDATE users SET email = 'boss@other.test' WHERE email LIKE 'max%'");
    expect(await othersPlace().say("workspace", "import", folder)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("another workspace has verified other.test here"),
    });
  });

  test("is no file that the export says it has lost", async () => {
    const place = othersPlace();
    const theirs = peek(place.data, (db) => db.query("SELECT blob FROM attachments").get()) as { blob: string };
    const folder = copyOf(made);
    editExport(folder, `UPDATE attachments SET blob = '${theirs.blob}'`);
    editManifest(folder, { lacking: [theirs.blob] });
    expect(await importFrom(place, folder)).toMatchObject({ served: true });
    const served = await place.serve();
    const { id } = peek(place.data, (db) =>
      db.query("SELECT id FROM attachments WHERE filename = 'note.txt'").get(),
    ) as { id: string };
    const { status, body } = await apiClient(served.http, left.key).bytes(`/attachments/${id}`);
    expect([status, Buffer.from(body).includes("otherattachment")]).toEqual([500, false]);
    await served.server.stop(0);
    // The same export again finds them as it wrote them.
    expect(await importFrom(place, folder)).toMatchObject({ repeated: true });
  });
});

test("what the other server wrote in its own name is not sent in that of this one", async () => {
  const folder = copyOf(made);
  editExport(
    folder,
    "UPDATE outbound_messages SET notice = 1, domain = 'other.test', return_path = 'bounce+x.@other.test' WHERE seq = (SELECT max(seq) FROM outbound_messages)",
  );
  const place = othersPlace();
  await importFrom(place, folder);
  await place.ask("domain", "verify", "example.test", "--skip-dns");
  expect(queueOf(place, "AND m.notice = 1").map(({ state }) => state)).toContain("cancelled");
  expect(queueOf(place, "AND m.notice = 1").map(({ state }) => state)).not.toContain("waiting");
  const kept = peek(place.data, (db) =>
    db.query("SELECT 1 FROM outbound_contents JOIN outbound_messages ON seq = message_seq WHERE notice = 1").all(),
  );
  expect(kept).toEqual([]);
});

test("a file that leads to a device is refused before it is opened", async () => {
  const folder = copyOf(made);
  const { blob } = peekIn(folder, "SELECT blob FROM attachments") as { blob: string };
  const path = join(folder, "blobs", blob.slice(0, 2), blob.slice(2));
  rmSync(path);
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync("/dev/zero", path);
  expect((await openPlace().say("workspace", "import", folder)).stderr).toContain("is no plain file");
});

function peekIn(folder: string, query: string): unknown {
  const db = new Database(database(folder), { readonly: true });
  try {
    return db.query(query).get();
  } finally {
    db.close();
  }
}
