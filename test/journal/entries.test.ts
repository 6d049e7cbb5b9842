/** The entries of what keys do, and what counts against their limits (rules: Journal). */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { asc } from "drizzle-orm";
import * as developers from "../../src/admin/developers.ts";
import * as journal from "../../src/admin/journal.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { getKeyLimitUse } from "../../src/journal/limits.ts";
import { updateThread } from "../../src/mailbox/changing/threads.ts";
import { journalEntries, SCOPES } from "../../src/store/schema.ts";
import type { Client } from "../harness/clients/api.ts";
import { connectMcp, ERAS } from "../harness/clients/mcp-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";
import { authPlain } from "../harness/servers/submission-rig.ts";

const EXT = "/api/ext/v1";
const ADMIN = "/api/admin/v1";
const HOUR_MS = 3_600_000;
let world: ExtWorld;
/** A key of alice's that nothing else uses, and its secret. */
let agent: { id: string; key: string; api: Client };

beforeAll(async () => {
  world = await bootExt();
  const { core, opened } = world;
  core.store.transact((tx) => {
    for (const name of ["carol", "dave"])
      mailboxAdmin.addAlias(opened.core, tx, world.maxMailboxId, `${name}@example.test`);
  });
});
beforeEach(() => {
  const { core, opened, owner, apiWith } = world;
  const made = core.store.transact((tx) =>
    developers.createKey(opened.core, tx, { userId: owner.userId, name: "Agent", scopes: SCOPES }),
  );
  agent = { ...made, api: apiWith(made.key) };
});

/** The entries of the agent but for reads, oldest first. */
const entries = () =>
  world.core.store.db
    .select()
    .from(journalEntries)
    .orderBy(asc(journalEntries.seq))
    .all()
    .filter(({ keyId, reads }) => keyId === agent.id && reads === null);
const told = () =>
  entries().map(({ operation, ids, outcome, changes, recipients, sent }) => ({
    operation,
    ids,
    outcome,
    changes,
    recipients,
    sent,
  }));
const entry = (operation: string, ids: string[], more: object = {}) => ({
  operation,
  ids,
  outcome: "ok",
  changes: 0,
  recipients: 0,
  sent: 0,
  ...more,
});
const receive = async (subject = "News") => (await world.receive(ALICE, subject)).threadId;

test("an entry tells when, who, for whom, by which way and from where", async () => {
  const id = await receive();
  await agent.api.patch(`/threads/${id}`, { starred: true });
  expect(entries()).toEqual([
    {
      seq: expect.any(Number),
      at: world.runtime.now(),
      workspaceId: world.owner.workspaceId,
      keyId: agent.id,
      userId: world.owner.userId,
      operation: "updateThread",
      face: "rest",
      client: null,
      source: "127.0.0.1",
      ids: [id],
      outcome: "ok",
      reads: null,
      changes: 1,
      recipients: 0,
      sent: 0,
    },
  ]);
});

describe("changes", () => {
  test("each request that changed something, with the conversations that it changed", async () => {
    const [a, b, c] = [await receive(), await receive(), await receive()];
    await agent.api.patch(`/threads/${a}`, { addLabels: ["News"] });
    await agent.api.patch(`${EXT}/threads`, { ids: [a, b, c, "thr_unknown"], folder: "archive", read: true });
    await agent.api.patch(`${EXT}/threads/${a}/snooze`, {
      until: new Date(world.runtime.now() + HOUR_MS).toISOString(),
    });
    await agent.api.patch(`${EXT}/labels/news`, { name: "Press" });
    await agent.api.delete(`${EXT}/labels/press`);
    expect(told()).toEqual([
      entry("updateThread", [a], { changes: 1 }),
      entry("updateThreads", [a, b, c], { changes: 3 }),
      entry("snoozeThread", [a], { changes: 1 }),
      entry("renameLabel", [a], { changes: 1 }),
      entry("deleteLabel", [a], { changes: 1 }),
    ]);
  });

  test("a request that changes nothing, or is refused, has no entry", async () => {
    const id = await receive();
    await agent.api.patch(`/threads/${id}`, { folder: "inbox", starred: false, labels: [], unread: true });
    expect((await agent.api.patch("/threads/thr_unknown", { starred: true })).status).toBe(404);
    expect((await agent.api.patch(`/threads/${id}`, { colour: "red" })).status).toBe(400);
    expect((await agent.api.post("/send", { from: ALICE, to: "nobody", text: "Hi" })).status).toBe(422);
    expect(told()).toEqual([]);
  });

  test("what a person does has no entry", async () => {
    const id = await receive();
    const { core } = world.opened;
    const { store } = core;
    const before = store.db.select().from(journalEntries).all().length;
    const person = { ...world.owner, role: "owner", email: ALICE, scopes: new Set(SCOPES) } as const;
    updateThread(core, person, id, { starred: true });
    expect(store.db.select().from(journalEntries).all()).toHaveLength(before);
  });

  test("administration has an entry with the id that it was about", async () => {
    const { body } = await agent.api.post<{ id: string }>(`${ADMIN}/keys`, { name: "Third", scopes: ["read"] });
    await agent.api.delete(`${ADMIN}/keys/${body.id}`);
    expect(told()).toEqual([entry("createKey", [body.id]), entry("revokeKey", [body.id])]);
  });
});

describe("mail", () => {
  const mail = {
    from: ALICE,
    to: ["carol@example.test", MAX],
    bcc: "dave@example.test",
    subject: "Secret",
    text: "Hi",
  };

  test("each message that was accepted, with the number of recipients and no word of it", async () => {
    const id = await receive();
    const sent = await agent.api.post<{ emailId: string; threadId: string }>("/send", mail);
    const reply = await agent.api.post<{ emailId: string }>(`/threads/${id}/reply`, { to: MAX, text: "Thanks" });
    expect(told()).toEqual([
      entry("sendEmail", [sent.body.emailId, sent.body.threadId], { recipients: 3, sent: 3 }),
      entry("replyToThread", [reply.body.emailId, id], { recipients: 1, sent: 1 }),
    ]);
    expect(JSON.stringify(entries())).not.toMatch(/example\.test|Secret/);
  });

  test("a repeated request is answered again, and has no second entry", async () => {
    for (let i = 0; i < 2; i++) await agent.api.post("/send", mail, { "idempotency-key": "once" });
    expect(told()).toHaveLength(1);
  });

  test("drafts", async () => {
    const id = await receive();
    const reply = await agent.api.post<{ draftId: string }>(`/threads/${id}/draft`, { text: "Soon" });
    const made = await agent.api.post<{ id: string }>(`${EXT}/drafts`, mail);
    await agent.api.patch(`${EXT}/drafts/${made.body.id}`, { revision: 1, subject: "Other" });
    await agent.api.delete(`${EXT}/drafts/${reply.body.draftId}`);
    const sent = await agent.api.post<{ emailId: string; threadId: string }>(`${EXT}/drafts/${made.body.id}/send`, {});
    expect(told()).toEqual([
      entry("draftReply", [reply.body.draftId, id]),
      entry("createDraft", [made.body.id]),
      entry("updateDraft", [made.body.id], { changes: 1 }),
      entry("deleteDraft", [reply.body.draftId], { changes: 1 }),
      entry("sendDraft", [sent.body.emailId, sent.body.threadId], { recipients: 3, sent: 3 }),
    ]);
  });

  test("what is sent later counts when it is accepted, and has a second entry when it goes", async () => {
    const sendAt = new Date(world.runtime.now() + HOUR_MS).toISOString();
    const { body } = await agent.api.post<{ draftId: string }>("/send", { ...mail, sendAt });
    expect(told()).toEqual([entry("sendEmail", [body.draftId], { recipients: 3 })]);
    await world.advance(HOUR_MS);
    await world.server.settled();
    expect(told().slice(1)).toEqual([
      entry("sendDraft", [expect.stringMatching(/^msg_/), expect.stringMatching(/^thr_/)], { sent: 3 }),
    ]);
    expect(entries()[1]).toMatchObject({ face: "schedule", source: null });
  });

  test("what waits for approval counts when it is held, and has a second entry when a person lets it go", async () => {
    const { opened, owner, apiWith } = world;
    const { core } = opened;
    const { store } = core;
    const [held, approver] = store.transact((tx) => {
      const made = { userId: owner.userId, name: "Agent" };
      const policy = { send: "hold" } as const;
      return [
        developers.createKey(core, tx, { ...made, scopes: SCOPES, policy }),
        developers.createKey(core, tx, { ...made, scopes: SCOPES }),
      ] as const;
    });
    agent = { ...held, api: apiWith(held.key) };
    const { body } = await agent.api.post<{ emailId: string; threadId: string }>("/send", mail);
    expect(told()).toEqual([entry("sendEmail", [body.emailId, body.threadId], { outcome: "held", recipients: 3 })]);
    const sentSince = () =>
      journal
        .takeBackKeyChanges(core, journal.getJournalSubject(store.db, held.id), 0, { face: "cli", dryRun: true })
        .then(({ sent }) => sent);
    expect(await sentSince()).toEqual({ messages: 0, recipients: 0, latest: [] });
    expect((await apiWith(approver.key).post(`${ADMIN}/holds/${body.emailId}/approve`, {})).status).toBe(200);
    expect(told().slice(1)).toEqual([entry("approve", [body.emailId, body.threadId], { sent: 3 })]);
    expect(await sentSince()).toMatchObject({
      messages: 1,
      recipients: 3,
      latest: [{ ids: [body.emailId, body.threadId] }],
    });
  });

  test("a mail app that signs in with a key", async () => {
    const client = await connectSmtp(world.submission);
    await client.expect(220, "STARTTLS");
    await client.secure();
    await client.expect(250, "EHLO client.example");
    expect((await authPlain(client, ALICE, agent.key)).code).toBe(235);
    await client.expect(250, `MAIL FROM:<${ALICE}>`);
    await client.expect(250, `RCPT TO:<${MAX}>`);
    await client.expect(354, "DATA");
    await client.expect(250, `From: ${ALICE}\r\nTo: ${MAX}\r\nSubject: App\r\n\r\nHi\r\n.`);
    client.destroy();
    expect(told()).toEqual([
      entry("submit", [expect.stringMatching(/^msg_/), expect.stringMatching(/^thr_/)], { recipients: 1, sent: 1 }),
    ]);
    expect(entries()[0]).toMatchObject({ face: "smtp", source: "127.0.0.1" });
  });
});

describe("over MCP", () => {
  test.each(ERAS)("the entry has the name of the client (%s)", async (era) => {
    const id = await receive();
    const client = await connectMcp(world.http, agent.key, era);
    await client.call("update_thread", { id, starred: true });
    await client.close();
    expect(entries()).toEqual([
      expect.objectContaining({ operation: "updateThread", face: "mcp", client: "test", ids: [id], changes: 1 }),
    ]);
  });

  test("a name is cut to 100 characters", async () => {
    const id = await receive();
    const ask = (method: string, params: object) =>
      agent.api.post(
        "/api/mcp",
        { jsonrpc: "2.0", id: 1, method, params },
        { accept: "application/json, text/event-stream", "content-type": "application/json" },
      );
    const clientInfo = { name: `${"n".repeat(99)}😀 and more`, version: "1" };
    await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    await ask("tools/call", { name: "update_thread", arguments: { id, starred: true } });
    expect(entries().map(({ client }) => client)).toEqual([`${"n".repeat(99)}😀`]);
  });
});

describe("limits", () => {
  test("changes and recipients of a time, and when the earliest was", async () => {
    const { db } = world.core.store;
    const start = world.runtime.now();
    const changed = () => getKeyLimitUse(db, agent.id, "changesPerHour", world.runtime.now());
    expect(changed()).toEqual({ count: 0, earliest: null });
    const ids = [await receive(), await receive()];
    await agent.api.patch(`${EXT}/threads`, { ids, starred: true });
    await world.advance(HOUR_MS / 2);
    await agent.api.patch(`${EXT}/threads`, { ids, starred: false });
    expect(changed()).toEqual({ count: 4, earliest: start });
    await world.advance(HOUR_MS / 2);
    expect(changed()).toEqual({ count: 2, earliest: start + HOUR_MS / 2 });
    await agent.api.post("/send", { from: ALICE, to: [MAX, "carol@example.test"], text: "Hi" });
    expect(getKeyLimitUse(db, agent.id, "recipientsPerDay", world.runtime.now())).toEqual({
      count: 2,
      earliest: start + HOUR_MS,
    });
  });

  test("both read an index and nothing else", () => {
    const { $client } = world.core.store.db;
    const planOf = (counted: string) =>
      $client
        .query<{ detail: string }, []>(
          `EXPLAIN QUERY PLAN SELECT sum(${counted}), min(at) FROM journal_entries WHERE key_id = 'k' AND at > 1 AND ${counted} > 0`,
        )
        .all()
        .map(({ detail }) => detail);
    expect(planOf("changes")).toEqual([expect.stringContaining("COVERING INDEX journal_by_changes")]);
    expect(planOf("recipients")).toEqual([expect.stringContaining("COVERING INDEX journal_by_recipients")]);
  });
});
