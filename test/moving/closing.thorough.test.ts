/** A workspace that has left takes nothing, does nothing and sends nothing, until it is reopened or removed. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createTransport } from "nodemailer";
import { type OutboundMessage, reversePathTo } from "../../src/outbound/queue.ts";
import { apiClient, type Client } from "../harness/clients/api.ts";
import { peek, rowsOf } from "../harness/data/table-rows.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import type { Booted } from "../harness/servers/boot.ts";
import {
  copySource,
  exportTo,
  importFrom,
  makeSource,
  move,
  newExport,
  openPlace,
  type Place,
} from "../harness/servers/moving-world.ts";

setDefaultTimeout(30_000);
beforeAll(async () => void (await makeSource()));

const DAY_MS = 86_400_000;
const clientOf = ({ http }: Pick<Booted, "http">, key: string): Client => apiClient(http, key);

async function replyTo({ mx }: Pick<Booted, "mx">, to: string): Promise<string> {
  const sender = mailer(mx);
  try {
    return (await sender.send({ from: "carol@remote.example", to }, letter({ to }))).reply;
  } catch (error) {
    return (error as { response: string }).response;
  } finally {
    sender.close();
  }
}

const stateOf = ({ data }: Place) =>
  peek(data, (db) => ({
    queue: db
      .query(
        `SELECT e.id, e.state, e.attempts, e.leased, e.due_at IS NOT NULL AS due FROM queue_entries e
         JOIN outbound_messages m ON m.seq = message_seq WHERE mailbox LIKE '%@example.test' ORDER BY e.id`,
      )
      .all(),
    sent: db.query("SELECT count(*) AS n FROM outbound_messages WHERE mailbox LIKE '%@example.test'").get(),
    drafts: db.query("SELECT due_at, refusal FROM drafts ORDER BY message_seq").all(),
    attempts: db.query("SELECT id, attempts FROM webhook_deliveries ORDER BY id").all(),
    messages: db.query("SELECT count(*) AS n FROM messages").get(),
  }));

test("it is closed on every road, and the other workspace goes on", async () => {
  const source = await copySource();
  const served = await source.serve({});
  const sender = mailer(served.mx);
  expect(await replyTo(served, "alice@example.test")).toStartWith("250");
  await exportTo(source, newExport(), "--final");

  const answer = await clientOf(served, source.key).get<{ code: string }>("/threads");
  expect([answer.status, answer.body.code, answer.headers.get("retry-after")]).toEqual([503, "server_error", "5"]);
  expect((await clientOf(served, source.key).post("/send", source.sent.body)).status).toBe(503);
  expect((await clientOf(served, source.agentKey).get("/api/ext/v1/labels")).status).toBe(503);
  for (const to of ["alice@example.test", "sales@example.test", "anything@example.test", "postmaster@example.test"]) {
    expect([to, await replyTo(served, to)]).toEqual([
      to,
      expect.stringMatching(/^451 4\.3\.2 This workspace is moving/),
    ]);
  }
  const message = peek(source.data, (db) =>
    db.query("SELECT id, return_path AS returnPath FROM outbound_messages WHERE mailbox = 'alice@example.test'").get(),
  ) as OutboundMessage;
  expect(await replyTo(served, reversePathTo(message, ["remote.example"]))).toStartWith("451 4.3.2");
  const app = createTransport({
    ...served.submission,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: "alice@example.test", pass: source.key },
  });
  const mail = { from: "alice@example.test", to: "x@remote.example", text: "x" };
  expect(((await app.sendMail(mail).catch((error) => error)) as { responseCode: number }).responseCode).toBeOneOf([
    451, 452, 454,
  ]);
  app.close();

  expect((await clientOf(served, source.othersKey).get("/threads")).status).toBe(200);
  expect(await replyTo(served, "eve@other.test")).toStartWith("250");
  sender.close();
  await served.server.stop(0);
});

test("nothing of it is sent, done or released, whatever time passes", async () => {
  const source = await copySource();
  await exportTo(source, newExport(), "--final");
  const before = stateOf(source);
  expect(before.queue).toHaveLength(3);
  for (const entry of before.queue) expect(entry).toMatchObject({ state: "held", leased: 0, due: 1 });
  const served = await source.serve({});
  for (let day = 0; day < 12; day++) await served.advance(DAY_MS);
  await served.server.stop(0);
  const after = stateOf(source);
  expect({ ...after, messages: 0 }).toEqual({ ...before, messages: 0 });

  const [entry] = before.queue as { id: string }[];
  expect(await source.say("queue", "retry", entry?.id ?? "")).toMatchObject({ exitCode: 1 });
  expect(await source.say("queue", "cancel", entry?.id ?? "")).toMatchObject({ exitCode: 1 });
  await source.say("queue", "release");
  expect(stateOf(source).queue).toEqual(before.queue);
  for (const words of [
    ["mailbox", "add", "new@example.test", "--name", "New", "--workspace", "Example"],
    ["user", "remove", "max@example.test"],
    ["key", "create", "--user", "max@example.test", "--name", "K", "--scopes", "read"],
    ["mailbox", "pause", "max@example.test", "--reason", "x"],
  ]) {
    const { exitCode, stderr } = await source.say(...words);
    expect([words[1], exitCode, stderr]).toEqual([words[1], 1, expect.stringContaining("moving to another server")]);
  }
});

test("reopened, it goes on where it stopped", async () => {
  const source = await copySource();
  await exportTo(source, newExport(), "--final");
  expect(await source.ask("workspace", "reopen", "Example")).toMatchObject({ state: "active" });
  const served = await source.serve({});
  expect((await clientOf(served, source.key).get("/threads")).status).toBe(200);
  expect(await replyTo(served, "alice@example.test")).toStartWith("250");
  expect(stateOf(source).queue).not.toContainEqual(expect.objectContaining({ state: "held" }));
  for (let day = 0; day < 11; day++) await served.advance(DAY_MS);
  expect(stateOf(source).drafts).not.toContainEqual({ due_at: expect.any(Number), refusal: null });
  await served.server.stop(0);
  expect(await source.say("workspace", "reopen", "Example")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("has not left"),
  });
});

test("what waited is sent by the other server alone, once", async () => {
  const source = await copySource();
  const { place } = await move(source);
  const queue = stateOf(place).queue as { id: string; state: string }[];
  expect(queue.map(({ id }) => id)).toEqual((stateOf(source).queue as { id: string }[]).map(({ id }) => id));
  for (const entry of queue) expect(entry).toMatchObject({ state: "waiting", due: 1, leased: 0 });
  const [here, there] = [await place.serve({}), await source.serve({})];
  for (let day = 0; day < 11; day++) await Promise.all([here.advance(DAY_MS), there.advance(DAY_MS)]);
  await Promise.all([here.server.stop(0), there.server.stop(0)]);
  const attempts = (at: Place) => (stateOf(at).queue as { attempts: number }[]).map((entry) => entry.attempts);
  expect(Math.min(...attempts(place))).toBeGreaterThan(Math.max(...attempts(source)));
  // The draft that was scheduled went out here.
  expect((stateOf(place).sent as { n: number }).n).toBeGreaterThan((stateOf(source).sent as { n: number }).n);
});

test("a request with an idempotency key is replayed by the other server", async () => {
  const source = await copySource();
  const { place } = await move(source);
  const served = await place.serve({});
  const { key, body } = source.sent;
  const replayed = await clientOf(served, source.key).post("/send", body, { "Idempotency-Key": key });
  expect([replayed.status, replayed.headers.get("idempotency-replayed")]).toEqual([202, "true"]);
  await served.server.stop(0);
});

test("it is removed with every row and word, and the other workspace keeps its own", async () => {
  const source = await copySource();
  expect(await source.say("workspace", "remove", "Example")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("this server serves Example"),
  });
  const { place } = await move(source);
  await source.ask("workspace", "remove", "Example");
  expect(await source.ask("workspace", "list")).toMatchObject([{ name: "Others Ltd" }]);
  const rows = peek(source.data, rowsOf);
  const ofServer = [
    "options",
    "greylist",
    "known_networks",
    "sign_in_sources",
    "trace_steps",
    "thread_changes",
    "oauth_clients",
  ];
  for (const [table, found] of Object.entries(rows)) {
    if (ofServer.includes(table)) continue;
    const text = JSON.stringify(found);
    expect([table, text.includes("example.test"), text.includes(source.workspaceId)]).toEqual([table, false, false]);
  }
  expect(rows.threads).toHaveLength(6);
  expect(rows.queue_entries).not.toEqual([]);
  const served = await source.serve({});
  expect(await replyTo(served, "alice@example.test")).toStartWith("550 5.7.1");
  expect((await clientOf(served, source.key).get("/threads")).status).toBe(401);
  expect((await clientOf(served, source.othersKey).get("/threads")).status).toBe(200);
  await served.server.stop(0);
  expect(await place.ask("workspace", "list")).toMatchObject([{ name: "Example", state: "active" }]);
});

test("an import that was given up is removed", async () => {
  const source = await copySource();
  const folder = newExport();
  await exportTo(source, folder);
  const place = openPlace();
  await importFrom(place, folder);
  await place.ask("workspace", "remove", "Example");
  const {
    options: _,
    thread_changes: __,
    webhook_cursor: ___,
    message_index: ____,
    ...rows
  } = peek(place.data, rowsOf);
  expect(Object.entries(rows).filter(([, found]) => found.length > 0)).toEqual([]);
});

test("it comes back to a server that still has it", async () => {
  const source = await copySource();
  const { place } = await move(source);
  const folder = newExport();
  await exportTo(place, folder, "--final");
  expect(await importFrom(source, folder)).toMatchObject({ served: true, written: 0 });
  const served = await source.serve({});
  expect((await clientOf(served, source.key).get("/threads")).status).toBe(200);
  await served.server.stop(0);
});

test("its own export is not imported where it left", async () => {
  const source = await copySource();
  const folder = newExport();
  await exportTo(source, folder, "--final");
  expect(await source.say("workspace", "import", folder)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("left this server with this very export"),
  });
});
