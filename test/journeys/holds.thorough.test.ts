/** Messages of API keys that wait for a person (rules: Held for approval), over real sockets. */
import { beforeEach, describe, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as outbound from "../../src/admin/outbound.ts";
import * as removals from "../../src/admin/removals.ts";
import { exportMailbox } from "../../src/mailbox/filing/transfer.ts";
import { holds, type Policy, type Scope } from "../../src/store/schema.ts";
import type { Client } from "../harness/clients/api.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

let world: ExtWorld;
let agent: { id: string; key: string; api: Client };

const MAIL: Scope[] = ["read", "send", "write"];
const HOLDS = "/api/admin/v1/holds";
const MINUTE = 60_000;
const DAY = 86_400_000;

function keyOf(policy: Policy, scopes: Scope[] = MAIL, userId = world.owner.userId) {
  const { core } = world.opened;
  const { store } = core;
  const made = store.transact((tx) => developers.createKey(core, tx, { userId, name: "Agent", scopes, policy }));
  return { ...made, api: world.apiWith(made.key) };
}

beforeEach(async () => {
  world = await bootExt({}, zone({ "remote.example": "SERVFAIL" }));
  agent = keyOf({ send: "hold" });
});

interface Sent {
  emailId: string;
  threadId: string;
  held?: boolean;
  sendAt?: string;
}

const letter = (more: object = {}) => ({ from: ALICE, to: MAX, subject: "Offer", text: "The price is 5.", ...more });

async function hold(more: object = {}, api = agent.api): Promise<Sent> {
  const { status, body } = await api.post<Sent>("/send", letter(more));
  expect([status, body.held]).toEqual([202, true]);
  return body;
}

const outcome = ({ status, body }: { status: number; body: unknown }) =>
  status < 300 ? status : [status, (body as { code: string }).code];

const get = async (id: string, api = world.api) =>
  (await api.get<{ message: Record<string, unknown> }>(`/messages/${id}`)).body.message;
const approve = (id: string, api = world.api) => api.post<Sent>(`${HOLDS}/${id}/approve`, {});
const reject = (id: string, body: object = {}) => world.api.post(`${HOLDS}/${id}/reject`, body);
const waiting = async (api = world.api, state = "waiting") =>
  (await api.get<{ holds: { id: string; reason: string }[] }>(`${HOLDS}?state=${state}`)).body.holds;

async function arrived(): Promise<string[]> {
  await world.server.settled();
  const { body } = await world.api.get<{ messages: { subject: string }[] }>(
    `/messages?mailbox=${MAX}&direction=inbound`,
  );
  return body.messages.map(({ subject }) => subject);
}

const events = (): { event: string; reason?: string; rejectedBy?: string | null }[] =>
  world.core.store.db.$client
    .query<{ event: string; data: string }, []>("SELECT event, data FROM events ORDER BY seq")
    .all()
    .map(({ event, data }) => ({ event, ...(JSON.parse(data) as object) }));

describe("holding", () => {
  test("nothing is sent; the message is in drafts, and says why it waits", async () => {
    const { emailId, threadId } = await hold({ bcc: "secret@remote.example" });
    expect(await arrived()).toEqual([]);
    const reason = "A person approves everything that this key sends";
    expect(await get(emailId)).toMatchObject({
      id: emailId,
      threadId,
      folder: "drafts",
      held: { state: "waiting", reason, since: new Date(world.runtime.now()).toISOString() },
    });
    expect(await waiting()).toEqual([
      expect.objectContaining({
        ...{ id: emailId, threadId, mailbox: ALICE, keyId: agent.id, userId: world.owner.userId, reason },
        recipients: [
          { field: "to", email: MAX },
          { field: "bcc", email: "secret@remote.example" },
        ],
      }),
    ]);
    // Who cannot approve it sees no Bcc.
    expect(await waiting(keyOf({}, ["admin", "read"]).api)).toEqual([
      expect.objectContaining({ id: emailId, recipients: [{ field: "to", email: MAX }] }),
    ]);
    const { queue } = (await world.api.get<{ queue: unknown[] }>("/api/admin/v1/queue")).body;
    expect(queue).toEqual([]);
    expect(events() as object[]).toEqual([
      {
        event: "message.held",
        emailId,
        threadId,
        mailboxId: world.owner.mailboxId,
        mailbox: ALICE,
        keyId: agent.id,
        reason,
      },
    ]);
  });

  test("for recipients outside of the policy, who are named; not those in Bcc", async () => {
    const key = keyOf({ recipients: ["thread"], otherwise: "hold" });
    const { emailId } = await hold({ to: "bob@remote.example", bcc: "secret@remote.example" }, key.api);
    const { held } = (await get(emailId)) as { held: { reason: string } };
    expect(held.reason).toBe("The key needs approval to write to bob@remote.example, a Bcc recipient");
    expect(JSON.stringify([events(), await get(emailId, world.asMax)])).not.toContain("secret");
  });

  test("a reply has the conversation that it answers, and makes nobody a participant of it", async () => {
    const { threadId } = await world.receive(ALICE, "Question");
    const { body } = await agent.api.post<Sent>(`/threads/${threadId}/reply`, {
      text: "Yes",
      cc: "eve@remote.example",
    });
    expect(body).toMatchObject({ held: true, threadId });
    const careful = keyOf({ recipients: ["thread"] });
    const reply = await careful.api.post(`/threads/${threadId}/reply`, { text: "x", to: "eve@remote.example" });
    expect(outcome(reply)).toEqual([403, "forbidden"]);
    expect((await world.api.get<{ messages: unknown[] }>(`/threads/${threadId}`)).body.messages).toHaveLength(1);
  });

  test("an idempotency key answers the same again, and holds it once", async () => {
    const first = await hold({ idempotencyKey: "k" });
    const again = await agent.api.post("/send", letter({ idempotencyKey: "k" }));
    expect(again.body).toEqual(first as never);
    expect(await waiting()).toHaveLength(1);
  });

  test("over SMTP it is accepted, and said to wait; sent again, it is held once", async () => {
    const { host, port } = world.submission;
    const auth = { user: ALICE, pass: agent.key };
    const client = createTransport({ host, port, auth, tls: { rejectUnauthorized: false } });
    const mail = {
      from: ALICE,
      to: MAX,
      subject: "By SMTP",
      text: "x",
      messageId: "<once@example.test>",
      date: new Date(0),
    };
    expect((await client.sendMail(mail)).response).toMatch(/^250 .*waits for a person/);
    await client.sendMail(mail);
    client.close();
    const [held, ...more] = await waiting();
    expect(more).toEqual([]);
    expect(outcome(await approve(held?.id ?? ""))).toBe(200);
    expect(await arrived()).toEqual(["By SMTP"]);
  });

  test("its header is told: who is only named, fields that redirect, others, and a text that is not the HTML's", async () => {
    const { host, port } = world.submission;
    const auth = { user: ALICE, pass: agent.key };
    const client = createTransport({ host, port, auth, tls: { rejectUnauthorized: false } });
    await client.sendMail({
      envelope: { from: ALICE, to: [MAX, "secret@remote.example"] },
      ...{ from: ALICE, to: [MAX, "Boss <boss@remote.example>"], subject: "By SMTP" },
      ...{ text: "The price is 6.", html: "<p>The price is <b>5</b>.</p>" },
      replyTo: "Alice <eve@evil.example>",
      headers: { "X-Campaign": "=?utf-8?q?Fr=C3=BChling?=", "Mail-Followup-To": "eve@evil.example" },
    });
    client.close();
    const headers = [
      { name: "Mail-Followup-To", value: "eve@evil.example", redirects: true },
      { name: "Reply-To", value: "Alice <eve@evil.example>", redirects: true },
      { name: "X-Campaign", value: "Frühling", redirects: false },
    ];
    const namedOnly = [{ name: "Boss", email: "boss@remote.example" }];
    const [row] = (await waiting()) as unknown as { id: string; headers: object[]; namedOnly: object[] }[];
    expect(row).toMatchObject({ namedOnly, headers });
    const { held } = await get(row?.id ?? "");
    expect(held).toMatchObject({ namedOnly, headers, textDiffers: true });
    expect(JSON.stringify(held)).not.toContain("secret");
    const plain = await hold({ html: "<p>The price is <b>5</b>.</p>" });
    expect(await get(plain.emailId)).toMatchObject({ held: { headers: [], namedOnly: [], textDiffers: false } });
  });

  test.each([
    ["suppressed recipients", 422],
    ["a paused mailbox", 423],
    ["no address", 422],
  ])("%s are refused at once: %d", async (what, status) => {
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) => {
      if (what === "a paused mailbox") mailboxAdmin.pauseMailbox(tx, world.owner.mailboxId, "for a test");
      outbound.suppress(core, tx, {
        workspaceId: world.owner.workspaceId,
        address: "stop@remote.example",
        reason: "Asked",
      });
    });
    const to = what === "no address" ? "nonsense" : "stop@remote.example";
    expect((await agent.api.post("/send", letter({ to: what === "a paused mailbox" ? MAX : to }))).status).toBe(status);
    expect(await waiting()).toEqual([]);
  });

  test("it counts for no cap until it is approved; then the caps are asked, and it waits on", async () => {
    const { store, options } = world.core;
    store.transact((tx) => options.set(tx, "sending.mailboxPerHour", "1"));
    const [one, other] = [await hold(), await hold({ subject: "Second" })];
    expect(outcome(await approve(one.emailId))).toBe(200);
    expect(outcome(await approve(other.emailId))).toEqual([429, "rate_limited"]);
    expect(await waiting()).toMatchObject([{ id: other.emailId }]);
    await world.advance(60 * MINUTE);
    expect(outcome(await approve(other.emailId))).toBe(200);
    expect((await arrived()).sort()).toEqual(["Offer", "Second"]);
  });

  test("it cannot be changed, sent, discarded or put in trash", async () => {
    const { emailId } = await hold();
    const { threadId } = (await get(emailId)) as { threadId: string };
    for (const api of [agent.api, world.api]) {
      for (const folder of ["trash", "archive"]) {
        expect(outcome(await api.patch(`/threads/${threadId}`, { folder }))).toEqual([409, "conflict"]);
      }
      const draft = `/api/ext/v1/drafts/${threadId}`;
      expect(outcome(await api.patch(draft, { revision: 1, text: "Other" }))).toEqual([409, "conflict"]);
      expect(outcome(await api.post(`${draft}/send`, {}))).toEqual([409, "conflict"]);
      expect(outcome(await api.delete(draft))).toEqual([409, "conflict"]);
    }
    const bulk = await world.api.patch("/api/ext/v1/threads", { ids: [threadId], folder: "trash" });
    expect(bulk.body).toMatchObject({ threads: [], refused: [{ id: threadId, code: "conflict" }] });
    expect(await waiting()).toHaveLength(1);
  });
});

describe("approving", () => {
  test("sends the very bytes that were held, under the same id, as from the key's person; the copy says who approved", async () => {
    const { emailId, threadId } = await hold({ bcc: "secret@remote.example", html: "<p>The price is <b>5</b>.</p>" });
    const before = world.core.store.db.select().from(holds).all()[0]?.bytes;
    await world.advance(MINUTE);
    const done = await approve(emailId);
    expect([done.status, done.body]).toEqual([200, { ok: true, emailId, threadId } as never]);
    const sent = await get(emailId);
    expect(sent).toMatchObject({ folder: "sent", threadId, approvedBy: world.owner.userId, subject: "Offer" });
    expect(sent).not.toHaveProperty("held");
    expect(sent.bcc).toEqual([{ email: "secret@remote.example" }]);
    const content = world.core.store.db.$client
      .query<{ bytes: Uint8Array }, []>("SELECT bytes FROM outbound_contents")
      .get()?.bytes;
    expect(Buffer.from(content ?? "").equals(Buffer.from(before ?? ""))).toBe(true);
    expect(await arrived()).toEqual(["Offer"]);
    expect(await waiting()).toEqual([]);
    expect(events().map(({ event }) => event)).toEqual([
      "message.held",
      "message.approved",
      "message.outbound",
      "message.inbound",
      "message.delivered",
    ]);
    expect(outcome(await approve(emailId))).toEqual([404, "not_found"]);
  });

  test("a reply joins the conversation that it answers", async () => {
    const { threadId, emailId: question } = await world.receive(ALICE, "Question");
    const { body } = await agent.api.post<Sent>(`/threads/${threadId}/reply`, { text: "Yes" });
    expect((await approve(body.emailId)).body.threadId).toBe(threadId);
    const { messages } = (await world.api.get<{ messages: { id: string }[] }>(`/threads/${threadId}`)).body;
    expect(messages.map(({ id }) => id)).toEqual([question, body.emailId]);
  });

  test("with its attachments, of which large ones are files", async () => {
    const content = Buffer.alloc(400_000, "x").toString("base64");
    const { emailId } = await hold({ attachments: [{ filename: "big.bin", content }] });
    expect(world.core.store.db.select().from(holds).all()[0]).toMatchObject({
      bytes: null,
      blob: expect.any(String),
    });
    expect(outcome(await approve(emailId))).toBe(200);
    expect(await arrived()).toEqual(["Offer"]);
    expect((await get(emailId)).attachments).toMatchObject([{ filename: "big.bin", size: 400_000 }]);
  });

  test("people with send access do it, and keys with the scope approve; nobody else, and no key what it sent itself", async () => {
    const { emailId } = await hold();
    // Max may only view the mailbox.
    const max = keyOf({}, ["read", "approve"], world.maxId);
    expect(outcome(await approve(emailId, max.api))).toEqual([403, "forbidden"]);
    expect(await waiting(max.api)).toEqual([]);
    expect(outcome(await approve(emailId, agent.api))).toEqual([403, "missing_scope"]);
    const admin = keyOf({}, ["admin"]);
    expect(await waiting(admin.api)).toHaveLength(1);
    expect(outcome(await approve(emailId, admin.api))).toEqual([403, "missing_scope"]);
    const self = keyOf({ send: "hold" }, ["send", "approve", "admin", "read"]);
    const own = await hold({}, self.api);
    expect(outcome(await approve(own.emailId, self.api))).toEqual([403, "forbidden"]);
    const child = await self.api.post<{ key: string }>("/api/admin/v1/keys", {
      ...{ name: "Child", scopes: ["send"], policy: { send: "hold" } },
    });
    const byChild = await hold({}, world.apiWith(child.body.key));
    expect(outcome(await approve(byChild.emailId, self.api))).toEqual([403, "forbidden"]);
    const elsewhere = keyOf({ mailboxes: [MAX] }, ["approve"]);
    expect(outcome(await approve(emailId, elsewhere.api))).toEqual([404, "not_found"]);
    const {
      core: { store },
    } = world.opened;
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, world.maxId, "send"));
    expect(outcome(await approve(emailId, max.api))).toBe(200);
    expect((await get(emailId)).approvedBy).toBe(world.maxId);
  });

  test("no key what a key that is gone with its person sent: it may have made that key", async () => {
    const {
      core: { store },
    } = world.opened;
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, world.owner.mailboxId, world.maxId, "send"));
    const admin = keyOf({}, ["send", "approve", "admin", "read"]);
    const made = await admin.api.post<{ key: string }>("/api/admin/v1/keys", {
      ...{ name: "For max", scopes: ["send"], policy: { send: "hold" }, user: world.maxId },
    });
    const { emailId } = await hold({}, world.apiWith(made.body.key));
    expect(outcome(await admin.api.delete(`/api/admin/v1/people/${world.maxId}`))).toBe(200);
    expect(outcome(await approve(emailId, admin.api))).toEqual([403, "forbidden"]);
    expect(await waiting()).toHaveLength(1);
  });

  test("one of two who decide at the same time", async () => {
    const { emailId } = await hold();
    const all = await Promise.all([approve(emailId), approve(emailId), reject(emailId)]);
    expect(all.filter(({ status }) => status === 200)).toHaveLength(1);
    expect((await arrived()).length).toBeLessThanOrEqual(1);
    expect(await waiting()).toEqual([]);
  });

  test("of a key that was revoked meanwhile, too", async () => {
    const { emailId } = await hold();
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) => developers.revokeKey(core, tx, agent.id));
    expect(await waiting()).toHaveLength(1);
    expect(outcome(await approve(emailId))).toBe(200);
    expect(await arrived()).toEqual(["Offer"]);
  });

  test("takes no field that it does not know, and says which it takes", async () => {
    const { emailId } = await hold();
    const refused = await world.api.post<{ error: string }>(`${HOLDS}/${emailId}/approve`, { colour: "red" });
    expect(refused.status).toBe(400);
    expect(refused.body.error).toMatch(/^colour is not a field of this request: it takes \S/);
    expect(await waiting()).toHaveLength(1);
  });

  test("is idempotent", async () => {
    const { emailId } = await hold();
    const ask = () => world.api.post(`${HOLDS}/${emailId}/approve`, {}, { "idempotency-key": "a" });
    const first = await ask();
    expect((await ask()).body).toEqual(first.body);
    expect(await arrived()).toEqual(["Offer"]);
  });
});

describe("with sendAt", () => {
  const later = (ms: number) => new Date(world.runtime.now() + ms).toISOString();

  test("it is sent at the later of approval and that time", async () => {
    const sendAt = later(60 * MINUTE);
    const early = await hold({ subject: "Early", sendAt });
    const late = await hold({ subject: "Late", sendAt });
    expect(early.sendAt).toBe(sendAt);
    const approved = await approve(early.emailId);
    expect(approved.body).toMatchObject({ emailId: early.emailId, sendAt });
    expect(await get(early.emailId)).toMatchObject({ folder: "drafts", held: { state: "approved" } });
    expect(outcome(await approve(early.emailId))).toEqual([409, "conflict"]);
    expect(await arrived()).toEqual([]);
    await world.advance(60 * MINUTE);
    expect(await arrived()).toEqual(["Early"]);
    expect((await get(early.emailId)).approvedBy).toBe(world.owner.userId);
    await approve(late.emailId);
    expect((await arrived()).sort()).toEqual(["Early", "Late"]);
  });

  test("until then, one that was approved can be rejected", async () => {
    const { emailId } = await hold({ sendAt: later(60 * MINUTE) });
    await approve(emailId);
    expect(outcome(await reject(emailId, { reason: "Not yet" }))).toBe(200);
    expect(outcome(await reject(emailId))).toEqual([409, "conflict"]);
    await world.advance(60 * MINUTE);
    expect(await arrived()).toEqual([]);
    expect(await get(emailId)).toMatchObject({ held: { state: "rejected", reason: "Not yet" } });
  });

  test("the journal of the key says how it came to be sent", async () => {
    const faceOf = async () => {
      const path = `/api/admin/v1/keys/${agent.id}/journal?kind=sent`;
      const { entries } = (await world.api.get<{ entries: { operation: string; face: string }[] }>(path)).body;
      return entries.find(({ operation }) => operation === "approve")?.face;
    };
    await approve((await hold()).emailId);
    expect(await faceOf()).toBe("rest");
    await approve((await hold({ sendAt: later(60 * MINUTE) })).emailId);
    await world.advance(60 * MINUTE);
    expect(await arrived()).toHaveLength(2);
    expect(await faceOf()).toBe("schedule");
  });

  test("what refuses then has it wait again, and says why", async () => {
    const { emailId } = await hold({ sendAt: later(60 * MINUTE) });
    await approve(emailId);
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) =>
      outbound.suppress(core, tx, { workspaceId: world.owner.workspaceId, address: MAX, reason: "Asked" }),
    );
    await world.advance(60 * MINUTE);
    const [held] = await waiting();
    expect(held).toMatchObject({ id: emailId, reason: expect.stringContaining("suppression") });
  });

  test.each(["held", "scheduled"])(
    "a refusal of one that is %s names nobody in Bcc, however it is spelled",
    async (what) => {
      const api = what === "held" ? agent.api : world.api;
      const sendAt = later(60 * MINUTE);
      const { body } = await api.post<Sent>("/send", letter({ sendAt, bcc: "Secret.Bcc@remote.example" }));
      if (what === "held") await approve(body.emailId);
      const { core } = world.opened;
      const { store } = core;
      store.transact((tx) =>
        outbound.suppress(core, tx, {
          ...{ workspaceId: world.owner.workspaceId, address: "secret.bcc@remote.example", reason: "Asked" },
        }),
      );
      await world.advance(60 * MINUTE);
      // Max may only view the mailbox.
      const { body: list } = await world.asMax.get<{ threads: { id: string }[] }>(
        `/threads?mailbox=${ALICE}&folder=drafts`,
      );
      const [{ id = "" } = {}] = list.threads;
      const { messages } = (await world.asMax.get<{ messages: { id: string }[] }>(`/threads/${id}`)).body;
      const shown = JSON.stringify([
        await get(messages[0]?.id ?? "", world.asMax),
        (await world.asMax.get(`/api/ext/v1/drafts/${id}`)).body,
      ]);
      expect(shown).toContain("refused when it was due");
      expect(shown.toLowerCase()).not.toContain("secret");
    },
  );

  test("its time to be approved begins anew then", async () => {
    const { emailId } = await hold({ sendAt: later(10 * DAY) });
    await approve(emailId);
    const {
      core: { store },
    } = world.opened;
    store.transact((tx) => mailboxAdmin.pauseMailbox(tx, world.owner.mailboxId, "for a test"));
    await world.advance(10 * DAY);
    await world.advance(MINUTE);
    expect(await waiting()).toMatchObject([{ id: emailId, since: expect.stringMatching(/^2026-01-1/) }]);
    await world.advance(MINUTE);
    expect(await waiting()).toHaveLength(1);
  });

  test("one that cannot be read delays no other", async () => {
    const sendAt = later(60 * MINUTE);
    const content = Buffer.alloc(400_000, "x").toString("base64");
    const broken = await hold({ sendAt, attachments: [{ filename: "big.bin", content }] });
    const { emailId } = await hold({ sendAt, subject: "Second" });
    for (const id of [broken.emailId, emailId]) await approve(id);
    world.core.store.db.$client.exec("UPDATE holds SET blob = 'gone' WHERE blob IS NOT NULL");
    await world.advance(60 * MINUTE);
    expect(await arrived()).toEqual(["Second"]);
    expect(await waiting(world.api, "approved")).toMatchObject([{ id: broken.emailId }]);
  });

  test.each<[string, () => Promise<unknown>]>([
    ["is paused", () => world.api.patch(`/api/admin/v1/keys/${agent.id}`, { paused: true })],
    ["has a narrower policy", () => world.api.patch(`/api/admin/v1/keys/${agent.id}`, { policy: { recipients: [] } })],
    ["lost the mailbox", () => world.api.patch(`/api/admin/v1/keys/${agent.id}`, { policy: { mailboxes: [MAX] } })],
    ["expired", () => world.api.patch(`/api/admin/v1/keys/${agent.id}`, { policy: { expiresAt: later(MINUTE) } })],
  ])("of a key that %s by then, it is held", async (_, change) => {
    agent = keyOf({});
    const { body } = await agent.api.post<{ scheduled: boolean }>("/send", letter({ sendAt: later(60 * MINUTE) }));
    expect(body.scheduled).toBe(true);
    await change();
    await world.advance(60 * MINUTE);
    expect(await arrived()).toEqual([]);
    const [held] = await waiting();
    expect(outcome(await approve(held?.id ?? ""))).toBe(200);
    expect(await arrived()).toEqual(["Offer"]);
  });
});

describe("rejecting", () => {
  test("says why for 30 days, then the message is deleted", async () => {
    const { emailId } = await hold();
    expect(outcome(await reject(emailId, { reason: "The price is wrong" }))).toBe(200);
    expect(await get(emailId, agent.api)).toMatchObject({ held: { state: "rejected", reason: "The price is wrong" } });
    expect(await waiting(world.api, "rejected")).toMatchObject([{ id: emailId, decidedBy: world.owner.userId }]);
    expect(outcome(await approve(emailId))).toEqual([409, "conflict"]);
    expect(await arrived()).toEqual([]);
    await world.advance(30 * DAY - MINUTE);
    expect((await get(emailId)).id).toBe(emailId);
    await world.advance(3 * MINUTE);
    expect((await world.api.get(`/messages/${emailId}`)).status).toBe(404);
    expect(events().at(-1)).toMatchObject({ event: "message.rejected", reason: "The price is wrong" });
  });

  test("what waits longer than holds.days is not approved in time", async () => {
    const { emailId } = await hold();
    await world.advance(7 * DAY - MINUTE);
    expect(await waiting()).toHaveLength(1);
    await world.advance(2 * MINUTE);
    expect(await get(emailId)).toMatchObject({ held: { state: "rejected", reason: "not approved in time" } });
    // The mail about it is filed at that moment, too.
    const decided = events().filter(({ event }) => event !== "message.inbound");
    expect(decided.at(-1)).toMatchObject({ event: "message.rejected", rejectedBy: null });
  });
});

/** Subjects and bodies of the notices in a mailbox, newest first. */
async function noticesIn(mailbox: string) {
  await world.server.settled();
  const { body } = await world.api.get<{ messages: { subject: string; bodyText: string }[] }>(
    `/messages?mailbox=${mailbox}&direction=inbound`,
  );
  return body.messages.filter(({ subject }) => subject.includes("for approval"));
}

/** In steps: a worker composes the mail, and has half a minute for it. */
async function pass(minutes: number) {
  for (let i = 0; i < minutes * 3; i++) {
    await world.advance(MINUTE / 3);
    await world.server.settled();
  }
}

test("people are told by mail within a minute, then at most once an hour and mailbox", async () => {
  const notices = () => noticesIn(ALICE);
  await hold();
  await pass(1);
  expect(await notices()).toMatchObject([{ subject: `A message from ${ALICE} waits for approval` }]);
  await hold({ subject: "Second" });
  await hold({ subject: "Third" });
  await pass(58);
  expect(await notices()).toHaveLength(1);
  await pass(2);
  const [newest, ...more] = await notices();
  expect([newest?.subject, more.length]).toEqual([`2 messages from ${ALICE} wait for approval`, 1]);
  expect(newest?.bodyText).toContain("/approve");
  expect(newest?.bodyText).not.toMatch(/Second|Third/);
});

test("very many messages in one mailbox keep nobody from being told of another, and are told together", async () => {
  await hold();
  await pass(1);
  for (let i = 0; i < 12; i++) await Promise.all(Array.from({ length: 9 }, () => hold()));
  await hold({ from: MAX, to: ALICE });
  await pass(1);
  expect(await noticesIn(MAX)).toMatchObject([{ subject: `A message from ${MAX} waits for approval` }]);
  await pass(60);
  expect(await noticesIn(ALICE)).toMatchObject([
    { subject: `108 messages from ${ALICE} wait for approval` },
    { subject: `A message from ${ALICE} waits for approval` },
  ]);
});

test("over MCP it says that it waits, what to do, and what became of it", async () => {
  const both = keyOf({ send: "hold" }, ["read", "send"]);
  const call = async (name: string, args: object) => {
    const response = await fetch(`${world.http}/api/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${both.key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } }),
    });
    return response.text();
  };
  const sent = await call(
    "send_email",
    letter({ headers: { "X-Campaign": "spring" }, html: "<p>The price is 6.</p>" }),
  );
  expect(sent).toContain("Held for approval");
  expect(sent).toContain("Do not send it again");
  const [{ id = "" } = {}] = await waiting();
  expect(sent).toContain(id);
  const shown = await call("get_message", { id });
  for (const line of ["waits for approval", "X-Campaign: spring", "Its text part says something else than its HTML"]) {
    expect(shown).toContain(line);
  }
  await reject(id, { reason: "Not this price" });
  expect(await call("get_message", { id })).toContain("Held: rejected, Not this price");
});

test("an export has the message once it was sent, and not while it waits or was rejected", async () => {
  const [sent, rejected] = [await hold({ subject: "Sent" }), await hold({ subject: "Rejected" })];
  await hold({ subject: "Waits" });
  await approve(sent.emailId);
  await reject(rejected.emailId);
  const subjects: string[] = [];
  for await (const { row } of exportMailbox(world.opened.core, world.owner.mailboxId)) subjects.push(row.subject);
  expect(subjects).toEqual(["Sent"]);
});

test("with its mailbox go its held messages", async () => {
  await hold();
  const { core } = world.opened;
  const { store } = core;
  store.transact((tx) => removals.beginMailboxRemoval(tx, world.owner.mailboxId));
  const runDue = (now: number) => removals.finishMailboxRemovals(core).runDue(now) as number;
  for (let now = world.runtime.now(), due = runDue(now); due - now < 1_000; due = runDue(now)) now = due;
  expect(store.db.select().from(holds).all()).toEqual([]);
});
