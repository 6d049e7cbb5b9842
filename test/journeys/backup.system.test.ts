/**
 * A backup of a server under load, restored elsewhere: every message that the backup has is there again, byte for byte,
 * and can be read with the same keys. And what is left by a kill -9, of a backup and of a restore.
 */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { readBackupState } from "../../src/backup/backup-layout.ts";
import { openStore } from "../../src/store/store.ts";
import { apiClient, type Client } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail/mail.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { builtExecutable } from "../harness/servers/executable.ts";
import { FROM_SOURCE, type Place, run, runJson, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const CONNECTIONS = 4;
/** Time enough for a kill to come in the middle, although who kills may have to wait for a core. */
const FILES = 1_200;

interface Page {
  threads: { id: string }[];
  nextCursor: string | null;
}

const messageOf = (n: number): string =>
  [
    "From: carol@remote.example",
    "To: owner@example.test",
    `Subject: backup ${n}`,
    `Message-ID: <backup-${n}@remote.example>`,
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="b"',
    "",
    "--b",
    "Content-Type: text/html; charset=utf-8",
    "",
    `<p>body of <b>${n}</b></p>`,
    "--b",
    "Content-Type: application/octet-stream",
    'Content-Disposition: attachment; filename="proof.bin"',
    "Content-Transfer-Encoding: base64",
    "",
    createHash("sha512").update(String(n)).digest("base64"),
    "--b--",
    "",
  ].join("\n");

/** Every message by id, as the API serves it: its fields, the hash of its file and those of its attachments. */
async function everything(api: Client): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  const hash = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  async function read(threadId: string): Promise<void> {
    const { body } = await api.get<{ messages: { id: string; attachments: { url: string }[] }[] }>(
      `/threads/${threadId}`,
    );
    for (const message of body.messages) {
      const raw = hash((await api.bytes(`/messages/${message.id}/raw`)).body);
      const files = await Promise.all(message.attachments.map(async ({ url }) => hash((await api.bytes(url)).body)));
      found.set(message.id, { message, raw, files });
    }
  }
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: Page = (await api.get<Page>(`/threads?folder=all&limit=100${cursor && `&cursor=${cursor}`}`)).body;
    await Promise.all(page.threads.map(({ id }) => read(id)));
    cursor = page.nextCursor;
  }
  return found;
}

async function setUp(): Promise<{ place: Place; apiKey: string; folder: string }> {
  const place = { data: temporaryFolder() };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    "setup",
    "--domain",
    "example.test",
    "--email",
    "owner@example.test",
    "--name",
    "Owner",
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  settle(place, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });
  return { place, apiKey, folder: join(temporaryFolder(), "backup") };
}

test("backed up under load while serving, verified, restored elsewhere: every message is there, the same", async () => {
  const { place, apiKey, folder } = await setUp();
  const server = await serve(place);
  const sender = mailer(server.mx, { connections: CONNECTIONS, starttls: false });
  let sent = 0;
  let most = 0;
  let over = false;
  const envelope = { from: "carol@remote.example", to: "owner@example.test" };
  const pour = async (): Promise<void> => {
    while (!over) await (sent < most ? sender.send(envelope, messageOf(sent++)) : Bun.sleep(1));
  };
  const pouring = Promise.all(Array.from({ length: CONNECTIONS }, pour));
  const during = async (count: number): Promise<{ before: number; after: number; blobs: number; copied: number }> => {
    // What comes while the backup is made is enough to be seen, and few enough to be compared one by one.
    most = count + 80;
    await until(() => sent >= count);
    const before = sent;
    const made = await runJson<{ blobs: number; copied: number }>(place, "backup", folder);
    return { ...made, before, after: sent };
  };
  const first = await during(20);
  const second = await during(first.after + 20);
  over = true;
  await pouring;
  sender.close();
  // It was served meanwhile, and each is a moment between its beginning and its end.
  for (const { before, after, blobs } of [first, second]) {
    expect(after).toBeGreaterThan(before);
    expect(blobs).toBeGreaterThanOrEqual(before - CONNECTIONS);
    expect(blobs).toBeLessThanOrEqual(after);
  }
  expect(second.copied).toBe(second.blobs - first.blobs);
  expect(await runJson(place, "backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}, {}] });

  const there = await everything(apiClient(server.http, apiKey));
  const running = await run(place, ["restore", folder]);
  expect(running).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("another server runs") });
  const elsewhere = { data: join(temporaryFolder(), "new") };
  await runJson({ ...elsewhere, cwd: tmp(elsewhere) }, "restore", folder);
  const restored = await serve(elsewhere);
  const again = await everything(apiClient(restored.http, apiKey));
  expect(again.size).toBe(second.blobs);
  for (const [id, message] of again) expect(there.get(id)).toEqual(message);
  const dnsOf = (of: Place) => runJson(of, "domain", "dns", "example.test");
  expect(await dnsOf(elsewhere)).toEqual(await dnsOf(place));

  // And it is a server: it takes mail, files it, and finds the old.
  const other = mailer(restored.mx, { starttls: false });
  await other.send({ from: "carol@remote.example", to: "owner@example.test" }, messageOf(sent));
  other.close();
  const { body } = await apiClient(restored.http, apiKey).get<{ threads: unknown[] }>(`/search?q="backup ${sent}"`);
  expect(body.threads).toHaveLength(1);
  for (const one of [server, restored]) expect(await one.kill("SIGTERM")).toBe(0);
}, 300_000);

const tmp = ({ data }: Place): string => join(data, "..");

/** Fills a data folder with files that something names. */
async function fill({ data }: Place): Promise<void> {
  const store = openStore({ folder: data, runtime: fakeRuntime() });
  const insert = store.db.$client.prepare(
    `INSERT INTO outbound_messages (id, workspace_id, mailbox_id, mailbox, thread_id, message_id, subject, domain,
       return_path, accepted_at, recipients, outside_recipients, mailbox_total, workspace_total)
     VALUES (?1, 'w', 'm', 'a@b', 't', ?1, '', 'b', 'bounce+' || ?1 || '@b', 0, 1, 1, 1, 1) RETURNING seq`,
  );
  for (let i = 0; i < FILES; i++) {
    const blob = await store.blobs.write(createHash("sha512").update(String(i)).digest());
    const { seq } = insert.get(`msg_${i}`) as { seq: number };
    store.db.$client.run("INSERT INTO outbound_contents (message_seq, size, blob) VALUES (?, 64, ?)", [seq, blob]);
  }
  store.close();
}

/** Runs a command and kills it as soon as `ripe` says so; whether it came to that. */
async function killWhen(place: Place, args: readonly string[], ripe: () => boolean): Promise<boolean> {
  const program = builtExecutable === undefined ? FROM_SOURCE : [builtExecutable];
  const child = Bun.spawn([...program, ...args], {
    env: { PATH: process.env.PATH ?? "", MAILROOM_DATA: place.data },
    stdio: ["ignore", "ignore", "ignore"],
  });
  await until(() => child.exitCode !== null || ripe());
  child.kill("SIGKILL");
  await child.exited;
  return child.signalCode === "SIGKILL";
}

const countFiles = (folder: string): number =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length
    : 0;

test("kill -9 during a backup: it never looks finished, the former one is whole, and the next one goes on", async () => {
  const { place, folder } = await setUp();
  const { id: former } = await runJson<{ id: string }>(place, "backup", folder);
  await fill(place);
  for (const files of [10, 80]) {
    expect(await killWhen(place, ["backup", folder], () => countFiles(join(folder, "blobs")) > files)).toBe(true);
    const { ok, generations } = await runJson<{ ok: boolean; generations: { id: string }[] }>(
      place,
      "backup",
      "verify",
      folder,
    );
    expect({ ok, ids: generations.map(({ id }) => id) }).toEqual({ ok: true, ids: [former] });
  }
  const made = await runJson<{ blobs: number; copied: number }>(place, "backup", folder);
  expect(made.blobs).toBe(FILES);
  expect(made.copied).toBeLessThan(FILES - 60);
  expect(await runJson(place, "backup", "verify", folder)).toMatchObject({ ok: true, generations: [{}, {}] });
}, 300_000);

test("kill -9 during a restore: nothing opens what is half there, and restoring again makes it whole", async () => {
  const { place, folder } = await setUp();
  await fill(place);
  await runJson(place, "backup", folder);
  const elsewhere = { data: temporaryFolder() };
  for (const files of [5, 90]) {
    expect(await killWhen(elsewhere, ["restore", folder], () => countFiles(elsewhere.data) > files)).toBe(true);
    await expect(serve(elsewhere)).rejects.toThrow("a restore into it has not ended");
  }
  expect(await runJson(elsewhere, "restore", folder)).toMatchObject({ blobs: FILES });
  expect(await runJson(elsewhere, "user", "list")).toEqual(await runJson(place, "user", "list"));
  expect(countFiles(join(elsewhere.data, "blobs"))).toBe(FILES);
}, 300_000);

test("backups by themselves, in a process beside the server's", async () => {
  const { place, folder } = await setUp();
  settle(place, { "backup.folder": folder, "backup.everyHours": "0.0001", "backup.keep": "2" });
  const server: Served = await serve(place);
  const generations = () => (existsSync(join(folder, "generations")) ? readdirSync(join(folder, "generations")) : []);
  const seen = new Set<string>();
  while (seen.size < 3) {
    for (const id of generations().filter((name) => !name.startsWith("."))) seen.add(id);
    await Bun.sleep(10);
  }
  expect(await server.kill("SIGTERM")).toBe(0);
  expect(await runJson(place, "backup", "verify", folder)).toMatchObject({ ok: true });
  expect(generations().filter((name) => !name.startsWith(".")).length).toBeLessThanOrEqual(3);
  expect((await readBackupState(place.data)).lastGood?.folder).toBe(folder);
  expect(statSync(folder).mode & 0o077).toBe(0);
}, 300_000);
