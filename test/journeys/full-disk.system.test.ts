/**
 * A disk that is really full, under everything that writes: refused clearly, nothing lost of what was acknowledged, nothing
 * half filed, and it goes on when there is room. The program as its users run it, its data on a small disk.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { apiClient, type Client } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type Place, run, runJson, serve } from "../harness/servers/process.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";
import { diskNote, MB, mountDisk, type SmallDisk } from "../harness/small-disk.ts";
import { until } from "../harness/until.ts";

const ADDRESS = "ada@acme.test";
const SETUP = ["setup", "--domain", "acme.test", "--email", ADDRESS, "--name", "Ada"];
const ATTACHED_BYTES = 60_000;

interface Office {
  disk: SmallDisk;
  place: Place;
  apiKey: string;
}

async function openOffice(bytes: number): Promise<Office> {
  const disk = mountDisk(bytes);
  const place = { data: join(disk.path, "data"), cwd: disk.path };
  const { apiKey } = await runJson<{ apiKey: string }>(place, ...SETUP);
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  settle(place, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });
  return { disk, place, apiKey };
}

/** A message of which a part goes into the database, and a file of its own beside it. */
function large(n: number): string {
  const text = randomBytes(4_000).toString("hex").replace(/.{70}/g, "$& ");
  return letter({
    ...{ subject: `Message ${n}`, messageId: `<${n}@x.example>`, to: ADDRESS },
    headers: ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="b"'],
    text: `--b\nContent-Type: text/plain\n\n${text.replace(/ /g, "\n")}\n--b\nContent-Type: application/octet-stream; name="f${n}"\nContent-Transfer-Encoding: base64\nContent-Disposition: attachment\n\n${randomBytes(ATTACHED_BYTES).toString("base64").replace(/.{76}/g, "$&\n")}\n--b--`,
  });
}

/** A message without files whose octets are one. */
const long = (n: number): string =>
  letter({
    ...{ subject: `Message ${n}`, messageId: `<${n}@x.example>`, to: ADDRESS },
    text: randomBytes(100_000).toString("hex").replace(/.{70}/g, "$&\n"),
  });

interface Imported {
  imported: number;
  skipped: number;
  failed: number;
  stopped?: string;
}

/** Reads the database's check of itself and the mail in it. */
function inspect({ data }: Place) {
  const sqlite = new Database(join(data, "mailroom.db"));
  try {
    const one = <T>(sql: string): T => sqlite.query(sql).get() as T;
    const { integrity_check } = one<{ integrity_check: string }>("PRAGMA integrity_check");
    const { messages, subjects } = one<{ messages: number; subjects: number }>(
      "SELECT count(*) AS messages, count(DISTINCT subject) AS subjects FROM messages",
    );
    const named = (table: string) =>
      sqlite.query(`SELECT DISTINCT blob FROM ${table} WHERE blob IS NOT NULL`).all() as { blob: string }[];
    const isThere = ({ blob }: { blob: string }) =>
      statSync(join(data, "blobs", blob.slice(0, 2), blob.slice(2)), { throwIfNoEntry: false })?.size;
    const [attachments, octets] = [named("attachments").map(isThere), named("message_octets").map(isThere)];
    return { integrity: integrity_check, messages, subjects, attachments, octets };
  } finally {
    sqlite.close();
  }
}

/** The names of files that were being written. */
const leftovers = ({ data }: Place): string[] =>
  (readdirSync(join(data, "blobs"), { recursive: true, encoding: "utf8" }) as string[]).filter((name) =>
    /(^|\/)\./.test(name),
  );

const subjectsOf = async (api: Client): Promise<string[]> => {
  const { body } = await api.get<{ messages: { subject: string }[] }>("/messages?limit=100");
  return body.messages.map(({ subject }) => subject).sort();
};

describe.skipIf(diskNote !== "")(`a full disk${diskNote}`, () => {
  test("arriving mail is put off, what was there is served, and with room again mail comes in", async () => {
    const { disk, place, apiKey } = await openOffice(24 * MB);
    const server = await serve(place);
    const api = apiClient(server.http, apiKey);
    const { send, close } = mailer(server.mx);
    const envelope = { from: "carol@remote.example", to: ADDRESS };
    // The store is tried ten times a second at most.
    const isHealth = (status: number) => until(async () => (await fetch(`${server.http}/healthz`)).status === status);
    expect((await send(envelope, large(0))).reply).toStartWith("250 ");
    const accepted = ["Message 0"];

    disk.fill();
    for (let n = 1; n <= 6; n++) {
      const answer = await send(envelope, n % 2 === 0 ? long(n) : large(n)).catch((error) => error);
      // The write-ahead log may still have had a little room of its own.
      if (answer instanceof Error) expect(answer).toMatchObject({ response: expect.stringMatching(/^452 4\.3\.1 /) });
      else accepted.push(`Message ${n}`);
    }
    expect(accepted).toEqual(["Message 0"]);
    await isHealth(503);
    expect(await subjectsOf(api)).toEqual(accepted);
    expect((await api.post("/send", { from: ADDRESS, to: [ADDRESS], subject: "Out", text: "x" })).status).toBe(503);

    disk.empty();
    expect((await send(envelope, large(1))).reply).toStartWith("250 ");
    accepted.push("Message 1");
    const message = long(2);
    expect((await send(envelope, message)).reply).toStartWith("250 ");
    accepted.push("Message 2");
    close();
    await isHealth(200);
    expect(await subjectsOf(api)).toEqual(accepted);
    const { messages } = (await api.get<{ messages: { id: string; subject: string }[] }>("/messages")).body;
    const { id } = messages.find(({ subject }) => subject === "Message 2") ?? {};
    const original = Buffer.from((await api.bytes(`/api/ext/v1/messages/${id}/original`)).body).toString();
    expect(original.endsWith(`${message.trimEnd().replaceAll("\n", "\r\n")}\r\n`)).toBe(true);
    expect(await server.kill("SIGTERM")).toBe(0);
    expect(inspect(place)).toEqual({
      ...{ integrity: "ok", messages: 3, subjects: 3, attachments: [ATTACHED_BYTES, ATTACHED_BYTES] },
      octets: [expect.any(Number)],
    });
    expect(leftovers(place)).toEqual([]);
  }, 120_000);

  test("an import stops, keeps what it has filed whole, and repeated with room again files each message once", async () => {
    const COUNT = 240;
    const { disk, place } = await openOffice(16 * MB);
    const folder = files({ "m.mbox": Array.from({ length: COUNT }, (_, n) => mboxEntry(large(n))).join("") });
    const command = ["import", "--mailbox", ADDRESS, join(folder, "m.mbox")];
    const stopped = await run(place, [...command, "--json"]);
    expect([stopped.exitCode, stopped.stderr]).toEqual([
      1,
      expect.stringMatching(
        /^mailroom: the store takes no more \(.*(space|full).*\): see to its disk, and run it again/m,
      ),
    ]);
    const first = JSON.parse(stopped.stdout) as Imported;
    expect(first).toMatchObject({ stopped: "unavailable", skipped: 0, failed: 0 });
    expect(first.imported).toBeWithin(1, COUNT);
    expect(inspect(place)).toMatchObject({
      ...{ integrity: "ok", messages: first.imported, subjects: first.imported },
      attachments: Array(first.imported).fill(ATTACHED_BYTES),
    });
    expect(leftovers(place)).toEqual([]);
    // Still no room: it says so again, and changes nothing.
    expect((await run(place, command)).exitCode).toBe(1);
    expect(inspect(place).messages).toBeWithin(first.imported, COUNT);

    disk.grow(80 * MB);
    const { imported, skipped, failed } = await runJson<Imported>(place, ...command);
    expect([imported + skipped, failed]).toEqual([COUNT, 0]);
    expect(skipped).toBeGreaterThanOrEqual(first.imported);
    expect(inspect(place)).toMatchObject({
      ...{ integrity: "ok", messages: COUNT, subjects: COUNT, attachments: Array(COUNT).fill(ATTACHED_BYTES) },
    });
  }, 120_000);

  test("reindex, export and restore say so, leave everything as it was, and are done when there is room", async () => {
    const COUNT = 30;
    const { disk, place, apiKey } = await openOffice(24 * MB);
    const folder = files({ "m.mbox": Array.from({ length: COUNT }, (_, n) => mboxEntry(large(n))).join("") });
    await runJson<Imported>(place, "import", "--mailbox", ADDRESS, join(folder, "m.mbox"));
    const backup = join(folder, "backup");
    await runJson(place, "backup", backup);

    disk.fill();
    const opening = await run(place, ["reindex"]);
    // As it opens, or, where the log of who wrote last is still there, as it first writes.
    const full = /cannot be used: its disk is full |\(database or disk is full\)$/m;
    expect([opening.exitCode, opening.stderr]).toEqual([1, expect.stringMatching(full)]);
    disk.fill(200_000);
    const indexing = await run(place, ["reindex"]);
    expect([indexing.exitCode, indexing.stderr]).toEqual([1, expect.stringMatching(/\(database or disk is full\)$/m)]);
    const file = join(disk.path, "m.mbox");
    const exporting = await run(place, ["export", "--mailbox", ADDRESS, "--to", file]);
    expect([exporting.exitCode, exporting.stderr]).toEqual([1, expect.stringMatching(/no space/)]);
    expect(readdirSync(disk.path).sort()).toEqual(["data", "filler"]);
    const other = { ...place, data: join(disk.path, "other") };
    disk.empty();
    disk.fill(2 * MB);
    mkdirSync(other.data);
    const restoring = await run(other, ["restore", backup]);
    expect([restoring.exitCode, restoring.stderr]).toEqual([1, expect.stringMatching(/is full: nothing was restored/)]);
    expect(readdirSync(other.data).filter((name) => !name.endsWith(".lock"))).toEqual([]);

    disk.empty();
    disk.grow(80 * MB);
    expect(inspect(place)).toMatchObject({ integrity: "ok", messages: COUNT });
    expect(await runJson<object>(place, "reindex")).toEqual({ messages: COUNT });
    expect(await runJson<object>(place, "export", "--mailbox", ADDRESS, "--to", file)).toMatchObject({
      messages: COUNT,
    });
    expect(existsSync(file)).toBe(true);
    await runJson(other, "restore", backup);
    expect(inspect(other)).toMatchObject({ integrity: "ok", messages: COUNT });
    const server = await serve(other);
    expect((await apiClient(server.http, apiKey).get("/search?q=message&limit=100")).body.threads).toHaveLength(COUNT);
    expect(await server.kill("SIGTERM")).toBe(0);
  }, 120_000);
});
