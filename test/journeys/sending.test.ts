/** A message's whole way out: accepted over the API, tried, deferred, delivered or bounced, and told. */
import { expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { events, outboundContents, queueEntries, suppressions } from "../../src/store/schema.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { deliverTo, type RemoteMx, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const MINUTE = 60_000;

interface Sent {
  messageId: string;
  emailId: string;
  threadId: string;
}

interface Conversation {
  thread: { folder: string; unread: boolean };
  messages: { direction: string; from: { email: string }; subject: string; text: string; deliveredAt?: string }[];
}

/** An appliance for which remote.example is at a scripted server. */
async function world(script: RemoteScript): Promise<Booted & { remote: RemoteMx }> {
  const remote = await startRemoteMx(script);
  const dns = zone({
    "remote.example": { mx: [[10, "mx.remote.example"]] },
    "mx.remote.example": { a: [remote.host] },
  });
  const booted = await boot({}, dns);
  deliverTo(remote, booted.core);
  return { ...booted, remote };
}

async function send({ api, server }: Booted, to: string): Promise<Sent> {
  const { status, body } = await api.post<Sent>("/send", { from: ALICE, to, subject: "Plans", text: "Lunch?" });
  expect([status, body]).toEqual([202, expect.anything()]);
  await server.settled();
  return body;
}

const told = ({ core }: Booted) =>
  core.store.db
    .select()
    .from(events)
    .orderBy(events.seq)
    .all()
    .map(({ event, data }) => ({ event, ...(data as Record<string, unknown>) }));

const conversation = async ({ api }: Booted, { threadId }: Sent): Promise<Conversation> =>
  (await api.get<Conversation>(`/threads/${threadId}`)).body;

test("deferred, tried again on the schedule, delivered", async () => {
  const it = await world({
    rcpt: ({ attempt }) => (attempt <= 2 ? "450 4.2.0 come back later" : undefined),
  });
  const sent = await send(it, "Bob <bob@remote.example>");
  expect(it.remote.messages).toEqual([]);
  await it.advance(MINUTE - 1);
  expect(it.remote.connections).toBe(1);
  await it.advance(1);
  expect(it.remote.connections).toBe(2);
  expect((await conversation(it, sent)).messages[0]).not.toHaveProperty("deliveredAt");
  await it.advance(5 * MINUTE);

  expect(it.remote.messages).toHaveLength(1);
  const [message] = it.remote.messages;
  expect(message?.to).toEqual(["bob@remote.example"]);
  expect(message?.from).toMatch(/^bounce\+[0-9a-z]{26}\.[0-9a-f]{16}@example\.test$/);
  expect(message?.content).toContain(`Message-ID: ${sent.messageId}`);
  expect(message?.content.match(/^DKIM-Signature:/gm)).toHaveLength(2);
  const deliveredAt = new Date(it.runtime.now()).toISOString();
  expect((await conversation(it, sent)).messages).toMatchObject([{ direction: "outbound", deliveredAt }]);
  const common = { threadId: sent.threadId, messageId: sent.messageId, mailbox: ALICE, subject: "Plans" };
  const to = [{ email: "bob@remote.example", name: "Bob" }];
  expect(told(it)).toMatchObject([
    { event: "message.outbound", ...common, from: { email: ALICE, name: "Alice" }, to },
    { event: "message.delivered", ...common, to, deliveredAt },
  ]);
  // Settled: what was sent is kept in the Sent copy alone, and time sends nothing again.
  expect(it.core.store.db.select().from(outboundContents).all()).toEqual([]);
  await it.advance(48 * 60 * MINUTE);
  expect(it.remote.messages).toHaveLength(1);
});

test("refused: told in the conversation, suppressed, and not written to again", async () => {
  const it = await world({ rcpt: "550 5.1.1 no such person" });
  const sent = await send(it, "nobody@remote.example");
  const { thread, messages } = await conversation(it, sent);
  expect(thread).toMatchObject({ folder: "inbox", unread: true });
  expect(messages).toMatchObject([{ direction: "outbound" }, { direction: "inbound" }]);
  expect(messages[1]?.text).toContain("nobody@remote.example");
  expect(messages[1]?.text).toContain("no such person");
  expect(told(it)).toMatchObject([
    { event: "message.outbound" },
    { event: "message.bounced", mailbox: ALICE, recipient: "nobody@remote.example", hard: true },
  ]);
  expect(it.core.store.db.select().from(suppressions).all()).toMatchObject([{ address: "nobody@remote.example" }]);

  const again = await it.api.post("/send", { from: ALICE, to: "Nobody@remote.example", text: "Still there?" });
  expect([again.status, again.body]).toMatchObject([422, { code: "unprocessable" }]);
  expect(again.body.error).toContain("obody@remote.example");
  expect(told(it)).toHaveLength(2);

  // A reply goes to the people of the conversation, never to the notice.
  const reply = await it.api.post(`/threads/${sent.threadId}/reply`, { text: "Hello?" });
  expect([reply.status, reply.body]).toMatchObject([422, { code: "unprocessable" }]);
  expect(reply.body.error).toContain("nobody@remote.example");
});

test("given up after the last wait, without blaming the address", async () => {
  const it = await world({ rcpt: "451 4.3.0 not today" });
  it.core.store.transact((tx) => it.core.options.set(tx, "smtp.retrySeconds", "60,300"));
  const sent = await send(it, "bob@remote.example");
  await it.advance(MINUTE);
  expect(it.core.store.db.select().from(queueEntries).all()).toMatchObject([{ state: "waiting", attempts: 2 }]);
  await it.advance(5 * MINUTE);
  expect(it.core.store.db.select().from(queueEntries).all()).toMatchObject([{ state: "bounced", attempts: 3 }]);
  expect(told(it)).toMatchObject([{ event: "message.outbound" }, { event: "message.bounced", hard: false }]);
  expect(it.core.store.db.select().from(suppressions).all()).toEqual([]);
  expect((await conversation(it, sent)).messages).toHaveLength(2);
});

test("held back from a private address, which is no bounce, until the operator allows it or the last wait is over", async () => {
  const it = await world({});
  const { options, store } = it.core;
  const set = (name: string, value: string) => store.transact((tx) => options.set(tx, name, value));
  const entries = () => store.db.select().from(queueEntries).all();
  set("smtp.allowNetworks", "10.0.0.0/8");
  set("smtp.retrySeconds", "60,300");
  const reply = "mx.remote.example leads to a loopback address, which smtp.allowNetworks does not list";
  const sent = await send(it, "bob@remote.example");
  await it.advance(MINUTE);
  expect(entries()).toMatchObject([{ state: "waiting", attempts: 2, reply }]);
  expect(told(it)).toMatchObject([{ event: "message.outbound" }]);
  await it.advance(5 * MINUTE);
  expect(entries()).toMatchObject([{ state: "bounced", attempts: 3 }]);
  expect(told(it)[1]).toMatchObject({ event: "message.bounced", hard: false, detail: expect.stringContaining(reply) });
  expect((await conversation(it, sent)).messages[1]?.text).toContain("smtp.allowNetworks");
  expect(it.remote.connections).toBe(0);

  await send(it, "bob@remote.example");
  set("smtp.allowNetworks", "127.0.0.1/32");
  await it.advance(MINUTE);
  expect(it.remote.messages).toHaveLength(1);
});

test("one mailbox of this server to another: nothing leaves, and all is told", async () => {
  const it = await world({});
  const { core } = it.opened;
  const { store } = core;
  const { workspaceId } = it.owner;
  store.transact((tx) =>
    mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@example.test", name: "Team" }),
  );
  const sent = await send(it, "team@example.test");
  expect(it.remote.connections).toBe(0);
  const { body } = await it.api.get<{ threads: { id: string; folder: string; from: { email: string } }[] }>(
    "/threads?mailbox=team@example.test",
  );
  expect(body.threads).toMatchObject([{ folder: "inbox", from: { email: ALICE } }]);
  expect(told(it)).toMatchObject([
    { event: "message.outbound", threadId: sent.threadId },
    { event: "message.inbound", mailbox: "team@example.test", messageId: sent.messageId },
    { event: "message.delivered", threadId: sent.threadId, to: [{ email: "team@example.test" }] },
  ]);
  expect((await conversation(it, sent)).messages[0]).toHaveProperty("deliveredAt");
});
