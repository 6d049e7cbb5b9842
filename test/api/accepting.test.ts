/** Sending over the API with the real pipeline: a refusal leaves nothing behind, and a key commits with its message. */
import { expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { suppress } from "../../src/admin/outbound.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { events, idempotencyKeys, messages, outboundMessages, queueEntries } from "../../src/store/schema.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { startRemoteMx } from "../harness/peers/remote-mx.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const SEND = { from: "alice@example.test", to: "zoe@remote.example", subject: "Hello", text: "Lunch?" };
const MIB = 1_048_576;

async function start() {
  // Mail to this host waits in the queue.
  const booted = await boot({}, zone({ "remote.example": "SERVFAIL" }));
  const {
    core: { store, options },
  } = booted.opened;
  const { workspaceId, mailboxId } = booted.owner;
  const send = (key: string, body: object = SEND) => booted.api.post("/send", body, { "idempotency-key": key });
  const countOf = (table: typeof events | typeof idempotencyKeys | typeof messages | typeof outboundMessages) =>
    store.db.select().from(table).all().length;
  return {
    ...booted,
    workspaceId,
    mailboxId,
    store,
    people,
    send,
    set: (name: string, value: string) => store.transact((tx) => options.set(tx, name, value)),
    /** Counts all rows that accepting a message writes. */
    stored: () => ({
      messages: countOf(messages),
      outbound: countOf(outboundMessages),
      queued: store.db.select().from(queueEntries).all().length,
      keys: countOf(idempotencyKeys),
      announced: store.db
        .select()
        .from(events)
        .all()
        .filter(({ event }) => event === "message.outbound").length,
    }),
  };
}

const NOTHING = { messages: 0, outbound: 0, queued: 0, keys: 0, announced: 0 };
const ONE = { messages: 1, outbound: 1, queued: 1, keys: 1, announced: 1 };

/** Files a conversation into Alice's mailbox that she can reply to. */
async function receive({ mx, api }: Booted): Promise<string> {
  const sender = mailer(mx);
  await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, letter());
  sender.close();
  const { body } = await api.get<{ threads: { id: string }[] }>("/threads");
  const [thread] = body.threads;
  if (!thread) throw new Error("nothing arrived");
  return thread.id;
}

test("many concurrent requests with one idempotency key send one message", async () => {
  const { send, stored } = await start();
  const answers = await Promise.all(Array.from({ length: 12 }, () => send("k")));
  const accepted = answers.filter(({ status }) => status === 202);
  expect(new Set(accepted.map(({ body }) => body.emailId)).size).toBe(1);
  expect(accepted.filter(({ headers }) => !headers.has("idempotency-replayed"))).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(12 - accepted.length);
  expect(stored()).toEqual(ONE);
  const replayed = await send("k");
  expect(replayed).toMatchObject({ status: 202, body: accepted[0]?.body as object });
  expect(replayed.headers.get("idempotency-replayed")).toBe("true");
  expect(stored()).toEqual(ONE);
});

test("a replay is answered even when the message could not be sent now", async () => {
  const world = await start();
  const { send, api, store, set, workspaceId, mailboxId, opened } = world;
  const threadId = await receive(world);
  const first = await send("sent");
  const answer = { text: "Yes" };
  const replied = await api.post(`/threads/${threadId}/reply`, answer, { "idempotency-key": "replied" });
  expect([first.status, replied.status]).toEqual([202, 202]);
  const before = world.stored();

  store.transact((tx) => mailboxAdmin.pauseMailbox(tx, mailboxId, "Sent spam"));
  store.transact((tx) => suppress(opened.core, tx, { workspaceId, address: SEND.to, reason: "No" }));
  set("sending.mailboxPerHour", "1");
  set("smtp.maxMessageBytes", "1024");
  await api.patch(`/threads/${threadId}`, { folder: "trash" });
  expect((await send("new")).status).toBe(422);

  const again = await send("sent");
  expect(again).toMatchObject({ status: 202, body: first.body });
  const repliedAgain = await api.post(`/threads/${threadId}/reply`, { ...answer, idempotencyKey: "replied" });
  expect(repliedAgain).toMatchObject({ status: 202, body: replied.body });
  expect([again, repliedAgain].map(({ headers }) => headers.get("idempotency-replayed"))).toEqual(["true", "true"]);
  expect(world.stored()).toEqual(before);
});

test("a refusal leaves nothing behind and frees the idempotency key", async () => {
  const world = await start();
  const { send, api, apiWith, opened, core, store, set, workspaceId, mailboxId, stored } = world;
  const pause = (reason: string | null) =>
    store.transact((tx) => {
      if (reason === null) mailboxAdmin.resumeMailbox(tx, mailboxId);
      else mailboxAdmin.pauseMailbox(tx, mailboxId, reason);
    });
  const member = store.transact((tx) => {
    const { userId } = people.addUser(core, tx, {
      workspaceId,
      email: "max@example.test",
      name: "Max",
      role: "member",
      ownMailbox: true,
    });
    mailboxAdmin.grantMailboxAccess(tx, mailboxId, userId, "view");
    mailboxAdmin.addAlias(core, tx, mailboxId, "sales@example.test");
    suppress(opened.core, tx, { workspaceId, address: "gone@remote.example", reason: "Bounced" });
    return developers.createKey(opened.core, tx, { userId, name: "Max", scopes: ["send", "write"] }).key;
  });

  const refusals: [body: object, status: number, code: string, says: RegExp][] = [
    [{ ...SEND, text: "x".repeat(MIB + 1) }, 413, "payload_too_large", /1048576/],
    [{ ...SEND, text: "x".repeat(MIB), html: "é" }, 413, "payload_too_large", /1048576/],
    [{ ...SEND, from: "nobody@example.test" }, 422, "unprocessable", /nobody@example\.test/],
    [{ ...SEND, from: "sales@example.test" }, 422, "unprocessable", /alias/],
    [{ ...SEND, to: "Zoe <zoe@remote.example>, nonsense" }, 422, "unprocessable", /nonsense/],
    [{ ...SEND, bcc: "gone@remote.example" }, 422, "unprocessable", /gone@remote\.example/],
    [{ ...SEND, cc: Array.from({ length: 100 }, (_, i) => `p${i}@remote.example`) }, 422, "unprocessable", /100/],
  ];
  for (const [body, status, code, says] of refusals) {
    const refused = await send("k", body);
    expect([refused.status, refused.body]).toEqual([
      status,
      { error: expect.stringMatching(says) as unknown as string, code },
    ]);
  }
  const byMax = (path: string, body: object) => apiWith(member).post(path, body, { "idempotency-key": "k" });
  expect(await byMax("/send", SEND)).toMatchObject({ status: 403, body: { code: "forbidden" } });
  for (const path of ["/threads/thr_none/reply", "/threads/thr_none/draft"]) {
    expect(await byMax(path, { text: "x" })).toMatchObject({ status: 404, body: { code: "not_found" } });
  }
  pause("Sent spam");
  expect(await send("k")).toMatchObject({
    status: 423,
    body: { code: "locked", error: expect.stringContaining("Sent spam") as unknown as string },
  });
  pause(null);
  store.transact((tx) => workspaceAdmin.pauseWorkspace(tx, workspaceId, "Moving"));
  expect(await send("k")).toMatchObject({
    status: 423,
    body: { error: expect.stringContaining("Moving") as unknown as string },
  });
  store.transact((tx) => workspaceAdmin.resumeWorkspace(tx, workspaceId));
  set("sending.mailboxPerHour", "0");
  const capped = await send("k");
  expect(capped).toMatchObject({ status: 429, body: { code: "rate_limited" } });
  expect(Number(capped.headers.get("retry-after"))).toBeGreaterThan(0);
  set("sending.mailboxPerHour", "100");
  store.transact((tx) => mailboxAdmin.setQuota(tx, mailboxId, 10));
  expect(await send("k")).toMatchObject({ status: 507, body: { code: "insufficient_storage" } });
  store.transact((tx) => mailboxAdmin.setQuota(tx, mailboxId, null));
  expect(stored()).toEqual(NOTHING);

  expect(await api.post("/send", SEND, { "idempotency-key": "k" })).toMatchObject({ status: 202 });
  expect(stored()).toEqual(ONE);
});

test("sending is refused with upstream_failed while the smarthost refuses the credentials", async () => {
  const { send, stored, set } = await start();
  const remote = await startRemoteMx({ auth: { user: "us", pass: "right" } });
  set("smtp.relay", `smtp://us:wrong@${remote.host}:${remote.port}`);
  const refused = await send("k");
  expect(refused).toMatchObject({
    status: 502,
    body: { code: "upstream_failed", error: expect.stringContaining("credentials") as unknown as string },
  });
  expect([refused.headers.get("retry-after"), stored()]).toEqual([null, NOTHING]);
  set("smtp.relay", `smtp://us:right@${remote.host}:${remote.port}`);
  expect((await send("k")).status).toBe(202);
  const [message] = await remote.waitFor(1);
  expect(message?.to).toEqual([SEND.to]);
});

test("the warm-up of a new domain refuses a message until the day on which it fits", async () => {
  const { send, stored, set, advance } = await start();
  const threeOutside = { ...SEND, to: ["a", "b", "c"].map((name) => `${name}@remote.example`) };
  set("sending.warmup", "1,3");
  expect((await send("first")).status).toBe(202);
  const before = stored();
  const refused = await send("k", threeOutside);
  // The clock stands at nine in the morning.
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, String(15 * 3_600)]);
  expect(refused.body).toEqual({
    error: expect.stringMatching(
      /example\.test is new: on day 1 it may reach 1 .* fits at 2026-01-06T00:00:00Z/,
    ) as never,
    code: "rate_limited",
  });
  // Recipients on this server do not count.
  expect((await send("inside", { ...SEND, to: "alice@example.test" })).status).toBe(202);
  expect(stored().outbound).toBe(before.outbound + 1);
  await advance(15 * 3_600_000);
  expect((await send("k", threeOutside)).status).toBe(202);
});

test("the answer of a key and the message commit together or not at all", async () => {
  const { send, stored, store } = await start();
  const sqlite = store.db.$client;
  sqlite.exec("CREATE TRIGGER fail BEFORE INSERT ON idempotency_keys BEGIN SELECT RAISE(ABORT, 'no answer'); END");
  expect(await send("k")).toMatchObject({ status: 500, body: { code: "server_error" } });
  expect(stored()).toEqual(NOTHING);
  sqlite.exec("DROP TRIGGER fail");
  sqlite.exec("CREATE TRIGGER fail BEFORE INSERT ON queue_entries BEGIN SELECT RAISE(ABORT, 'no queue'); END");
  expect((await send("k")).status).toBe(500);
  expect(stored()).toEqual(NOTHING);
  sqlite.exec("DROP TRIGGER fail");
  const accepted = await send("k");
  expect([accepted.status, accepted.headers.get("idempotency-replayed")]).toEqual([202, null]);
  expect(stored()).toEqual(ONE);
});

test("a draft is saved as a conversation of its own and is not sent", async () => {
  const world = await start();
  const threadId = await receive(world);
  const drafted = await world.api.post<{ draftId: string }>(`/threads/${threadId}/draft`, { text: "Perhaps" });
  expect(drafted).toMatchObject({
    status: 201,
    body: { ok: true, replyToThreadId: threadId, from: "alice@example.test", subject: "Re: Hello" },
  });
  const { body } = await world.api.get<{ thread: object }>(`/threads/${drafted.body.draftId}`);
  expect(body.thread).toMatchObject({ folder: "drafts", messageCount: 1 });
  expect(world.stored()).toMatchObject({ outbound: 0, queued: 0, announced: 0 });
});

test("expired idempotency keys are deleted from the database", async () => {
  const { send, stored, advance } = await start();
  await send("k");
  await advance(24 * 3_600_000);
  expect(stored().keys).toBe(1);
  await advance(3_600_000);
  expect(stored().keys).toBe(0);
});
