/** Drafts of programs over /api/ext/v1, and sending later (rules: Drafts over the API, Sending later). */
import { beforeAll, describe, expect, test } from "bun:test";
import * as developers from "../../../src/admin/developers.ts";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as outbound from "../../../src/admin/outbound.ts";
import type { Client } from "../../harness/clients/api.ts";
import { setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../../harness/servers/ext-world.ts";

interface Draft {
  id: string;
  draftId: string;
  emailId: string;
  revision: number;
  mailboxId: string;
  from: string;
  to: { email: string; name?: string }[];
  cc: { email: string }[];
  bcc?: { email: string }[];
  replyTo?: { email: string }[];
  headers?: Record<string, string>;
  subject: string;
  text: string;
  html?: string;
  attachments: { id: string; filename: string; size: number }[];
  replyToThreadId: string | null;
  sendAt?: string;
  refusal?: string;
  code?: string;
  error?: string;
}
interface Sent {
  from: string;
  messageId: string;
  emailId: string | null;
  threadId: string;
  scheduled?: boolean;
  sendAt?: string;
  draftId?: string;
  code?: string;
  error?: string;
}

const EXT = "/api/ext/v1";
let world: ExtWorld;
beforeAll(async () => {
  world = await bootExt();
  world.core.store.transact((tx) => {
    const { core } = world.opened;
    mailboxAdmin.addAlias(core, tx, world.owner.mailboxId, "alias@example.test");
  });
});

const create = (body: unknown, as = world.api, headers?: Record<string, string>) =>
  as.post<Draft>(`${EXT}/drafts`, body, headers);
const get = (id: string, as = world.api) => as.get<Draft>(`${EXT}/drafts/${id}`);
const change = (id: string, body: object, as = world.api) => as.patch<Draft>(`${EXT}/drafts/${id}`, body);
const send = (id: string, body: object = {}, as: Client = world.api, headers?: Record<string, string>) =>
  as.post<Sent>(`${EXT}/drafts/${id}/send`, body, headers);
const whole = { from: ALICE, to: `Max <${MAX}>`, subject: "Plans", text: "Lunch?" };
const inboxOfMax = async (): Promise<string[]> => {
  await world.server.settled();
  const { body } = await world.asMax.get<{ messages: { subject: string; headerMessageId: string }[] }>(
    `/messages?mailbox=${MAX}&direction=inbound&limit=100`,
  );
  return body.messages.map(({ subject }) => subject);
};

describe("POST /drafts", () => {
  test("nothing is required: it comes from the key's own mailbox", async () => {
    const { status, body } = await create({});
    expect(status).toBe(201);
    expect(body).toMatchObject({ id: body.draftId, revision: 1, from: ALICE, to: [], cc: [], subject: "", text: "" });
    expect(body.id).toMatch(/^thr_/);
    const { body: of } = await world.api.get<{ thread: { folder: string } }>(`/threads/${body.id}`);
    expect(of.thread.folder).toBe("drafts");
    expect((await create({}, world.asMax)).body.from).toBe(MAX);
  });

  test("keeps every field, files too, and sends nothing", async () => {
    const { status, body } = await create({
      ...whole,
      cc: ["c@remote.example"],
      bcc: "b@remote.example",
      html: "<p onclick='x()'>Lunch?</p><script>1</script>",
      replyTo: "help@example.test",
      headers: { "X-Ticket": "42" },
      attachments: [{ filename: "plan.txt", text: "At noon" }],
    });
    expect(status).toBe(201);
    expect((await get(body.id)).body).toEqual({
      id: body.id,
      draftId: body.id,
      emailId: expect.stringMatching(/^msg_/),
      revision: 1,
      mailboxId: world.owner.mailboxId,
      from: ALICE,
      to: [{ email: MAX, name: "Max" }],
      cc: [{ email: "c@remote.example" }],
      bcc: [{ email: "b@remote.example" }],
      replyTo: [{ email: "help@example.test" }],
      headers: { "X-Ticket": "42" },
      subject: "Plans",
      text: "Lunch?",
      html: expect.stringContaining("<p>Lunch?</p>"),
      attachments: [expect.objectContaining({ filename: "plan.txt", size: 7 })],
      replyToThreadId: null,
      savedAt: new Date(world.runtime.now()).toISOString(),
    } as never);
    expect(await inboxOfMax()).not.toContain("Plans");
  });

  test("as a form with files, and with a forwarded message", async () => {
    const { emailId } = await world.receive(ALICE, "Original", { text: "The original text" });
    const form = new FormData();
    form.set("request", JSON.stringify({ to: MAX, forward: emailId }));
    form.set("file", new File(["bytes"], "a.bin", { type: "application/octet-stream" }));
    const response = await fetch(`${world.http}${EXT}/drafts`, {
      method: "POST",
      headers: { authorization: `Bearer ${world.owner.apiKey}` },
      body: form,
    });
    const body = (await response.json()) as Draft;
    expect([response.status, body.subject, body.attachments.map(({ filename }) => filename)]).toEqual([
      201,
      "Fwd: Original",
      ["a.bin"],
    ]);
    expect(body.text).toContain("The original text");
  });

  test("once for one idempotency key", async () => {
    const headers = { "idempotency-key": "draft-1" };
    const first = await create(whole, world.api, headers);
    const again = await create(whole, world.api, headers);
    expect([again.status, again.body, again.headers.get("idempotency-replayed")]).toEqual([201, first.body, "true"]);
    expect(await create({ ...whole, text: "Other" }, world.api, headers)).toMatchObject({ status: 422 });
  });

  test.each<[object, number, string, RegExp]>([
    [{ to: "nobody" }, 422, "unprocessable", /nobody/],
    [{ from: "alias@example.test" }, 422, "unprocessable", /alias/],
    [{ from: "x@elsewhere.example" }, 422, "unprocessable", /./],
    [{ subject: 5 }, 400, "bad_request", /subject must be text/],
    [{ reply_to: "x@x.example" }, 400, "bad_request", /called replyTo/],
    [{ sendAt: "2027-01-01T00:00:00Z" }, 400, "bad_request", /sendAt is not a field/],
    [{ headers: { Bcc: "x@x.example" } }, 400, "bad_request", /X-… and List-…/],
    [{ attachments: [{}] }, 400, "bad_request", /attachments\[0\]/],
    [{ forward: "msg_unknown" }, 422, "unprocessable", /forward/],
    [{ text: "x".repeat(1_048_577) }, 413, "payload_too_large", /1048576/],
  ])("%j is refused", async (body, status, code, says) => {
    const answer = await create(body);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(answer.body.error).toMatch(says);
  });

  test("needs the scope write, and read for handles", async () => {
    const writer = world.apiWith(world.keyOf(world.owner.userId, ["write"]));
    expect((await create({ text: "x" }, writer)).status).toBe(201);
    expect(await create({ forward: "msg_x" }, writer)).toMatchObject({ status: 403, body: { code: "missing_scope" } });
    const reader = world.apiWith(world.keyOf(world.owner.userId, ["read"]));
    expect(await create({}, reader)).toMatchObject({ status: 403, body: { code: "missing_scope" } });
  });
});

describe("GET /drafts/{id}", () => {
  test("a person who may only view it sees no Bcc; what is no draft is 409, what is out of reach 404", async () => {
    const { body } = await create({ ...whole, bcc: "hidden@remote.example" });
    expect((await get(body.id)).body.bcc).toEqual([{ email: "hidden@remote.example" }]);
    const seen = await get(body.id, world.asMax);
    expect([seen.status, seen.body.subject, seen.body.bcc]).toEqual([200, "Plans", undefined]);
    expect(JSON.stringify(seen.body)).not.toContain("hidden");
    const { threadId } = await world.receive(ALICE, "No draft");
    expect(await get(threadId)).toMatchObject({ status: 409, body: { code: "conflict" } });
    expect(await get("thr_unknown")).toMatchObject({ status: 404 });
    const his = await create({}, world.asMax);
    expect((await get(his.body.id, world.apiWith(world.keyOf(world.maxId, ["read"])))).status).toBe(200);
  });

  test("shows a draft that replies, with its conversation", async () => {
    const { threadId } = await world.receive(ALICE, "Question");
    const made = await world.api.post<{ draftId: string }>(`/threads/${threadId}/draft`, { text: "An answer" });
    expect((await get(made.body.draftId)).body).toMatchObject({
      replyToThreadId: threadId,
      subject: "Re: Question",
      text: "An answer",
    });
  });
});

describe("PATCH /drafts/{id}", () => {
  test("changes what is given, and nothing else", async () => {
    const { body: before } = await create({
      ...whole,
      html: "<b>Lunch?</b>",
      bcc: "b@remote.example",
      replyTo: "help@example.test",
      headers: { "X-Ticket": "42", "List-Id": "<a.example>" },
      attachments: [{ filename: "plan.txt", text: "At noon" }],
    });
    const { status, body } = await change(before.id, { revision: 1, subject: "New plans" });
    expect(status).toBe(200);
    expect(body).toEqual({ ...before, revision: 2, subject: "New plans" });
    expect((await change(before.id, { revision: 2, headers: { "X-Other": "1" } })).body).toEqual({
      ...before,
      revision: 3,
      subject: "New plans",
      headers: { "X-Other": "1" },
    });
    const cleared = await change(before.id, { revision: 3, bcc: "", cc: ["c@remote.example"], replyTo: [] });
    expect(cleared.body).toMatchObject({ revision: 4, cc: [{ email: "c@remote.example" }] });
    expect([cleared.body.bcc, cleared.body.replyTo]).toEqual([undefined, undefined]);
  });

  test("text leaves no HTML, HTML makes the text, and both stand together", async () => {
    const { body } = await create({ text: "Old", html: "<b>Old</b>" });
    const text = await change(body.id, { revision: 1, text: "New" });
    expect([text.body.text, text.body.html]).toEqual(["New", undefined]);
    const html = await change(body.id, { revision: 2, html: "<b>Newer</b>" });
    expect([html.body.text.trim(), html.body.html]).toEqual(["Newer", expect.stringContaining("<b>Newer</b>")]);
    const both = await change(body.id, { revision: 3, text: "A", html: "<b>B</b>" });
    expect([both.body.text, both.body.html]).toEqual(["A", expect.stringContaining("<b>B</b>")]);
  });

  test("attachments replaces all; those that are named stay", async () => {
    const { body } = await create({
      attachments: [
        { filename: "a.txt", text: "a" },
        { filename: "b.txt", text: "b" },
      ],
    });
    const attachments = [{ attachmentId: body.attachments[1]?.id }, { filename: "c.txt", text: "cc" }];
    const changed = await change(body.id, { revision: 1, attachments });
    expect(changed.body.attachments.map(({ filename, size }) => [filename, size])).toEqual([
      ["b.txt", 1],
      ["c.txt", 2],
    ]);
    expect((await change(body.id, { revision: 2, attachments: [] })).body.attachments).toEqual([]);
    expect((await change(body.id, { revision: 3, text: "x" })).body.attachments).toEqual([]);
  });

  test("of a revision that is no longer the present one is 409, and changes nothing", async () => {
    const { body } = await create(whole);
    expect((await change(body.id, { revision: 1, text: "First" })).status).toBe(200);
    const second = await change(body.id, { revision: 1, text: "Second" });
    expect([second.status, second.body.code]).toEqual([409, "conflict"]);
    expect((await get(body.id)).body).toMatchObject({ revision: 2, text: "First" });
  });

  test("two at once: one wins", async () => {
    const { body } = await create(whole);
    const both = await Promise.all(["a", "b"].map((text) => change(body.id, { revision: 1, text })));
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
  });

  test("needs the scope read where somebody else wrote it last, since the answer has all of it", async () => {
    const [writer, other] = [1, 2].map(() => world.apiWith(world.keyOf(world.owner.userId, ["write"])));
    const { body } = await create({ text: "Mine" }, writer);
    expect((await change(body.id, { revision: 1, subject: "Mine" }, writer)).status).toBe(200);
    const refusedAs = { status: 403, body: { code: "missing_scope" } };
    expect(await change(body.id, { revision: 2, subject: "x" }, other)).toMatchObject(refusedAs);
    expect((await change(body.id, { revision: 2, text: "Secret" })).status).toBe(200);
    const refused = await change(body.id, { revision: 3, subject: "x" }, writer);
    expect(refused).toMatchObject(refusedAs);
    expect(JSON.stringify(refused.body)).not.toContain("Secret");
    expect((await get(body.id)).body).toMatchObject({ revision: 3, subject: "Mine" });
  });

  test("from another mailbox moves it, and it gets another id", async () => {
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) =>
      mailboxAdmin.addMailbox(core, tx, {
        workspaceId: world.owner.workspaceId,
        address: "team@example.test",
        name: "Team",
      }),
    );
    const { body } = await create({ ...whole, attachments: [{ filename: "a.txt", text: "a" }] });
    const moved = await change(body.id, { revision: 1, from: "team@example.test" });
    expect([moved.status, moved.body.from, moved.body.attachments.length]).toEqual([200, "team@example.test", 1]);
    expect(moved.body.id).not.toBe(body.id);
    expect((await get(body.id)).status).toBe(404);
  });

  test.each<[object, number, RegExp]>([
    [{ text: "x" }, 400, /revision is required/],
    [{ revision: "0" }, 400, /revision must be a whole number/],
    [{ revision: 1, forward: "msg_x" }, 400, /forward is not a field/],
    [{ revision: 1, to: "nobody" }, 422, /nobody/],
    [{ revision: 1, from: "alias@example.test" }, 422, /alias/],
    [{ revision: 1, attachments: [{ attachmentId: "att_unknown" }] }, 422, /attachment/],
  ])("%j is refused", async (fields, status, says) => {
    const { body } = await create(whole);
    const answer = await change(body.id, fields);
    expect([answer.status, answer.body.error]).toEqual([status, expect.stringMatching(says)]);
    expect((await get(body.id)).body).toEqual(body);
  });

  test("of a draft that is shared for viewing is 403", async () => {
    const { body } = await create(whole);
    for (const answer of [
      await change(body.id, { revision: 1, text: "x" }, world.asMax),
      await world.asMax.delete(`${EXT}/drafts/${body.id}`),
      await send(body.id, {}, world.asMax),
    ]) {
      expect(answer).toMatchObject({ status: 403, body: { code: "forbidden" } });
    }
  });
});

test("DELETE /drafts/{id} moves it to trash, also one that another key made, and undo brings it back", async () => {
  const { body } = await create(whole);
  const scopes = ["read", "write", "send"];
  const made = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", { name: "Agent", scopes });
  const agent = world.apiWith(made.body.key);
  expect(await agent.delete(`${EXT}/drafts/${body.id}`)).toMatchObject({ status: 200, body: { ok: true } });
  expect((await get(body.id)).status).toBe(409);
  expect((await world.api.delete(`${EXT}/drafts/${body.id}`)).status).toBe(409);
  const inTrash = await world.api.get<{ threads: { id: string }[] }>("/threads?folder=trash");
  expect(inTrash.body.threads.map(({ id }) => id)).toContain(body.id);
  const undone = await world.api.post(`/api/admin/v1/keys/${made.body.id}/undo`, { since: "2020-01-01T00:00:00Z" });
  expect(undone).toMatchObject({ status: 200, body: { threads: 1, leftChanges: 0 } });
  expect((await get(body.id)).body).toEqual(body);
  const { threadId } = await world.receive(ALICE, "Mail");
  expect((await world.api.delete(`${EXT}/drafts/${threadId}`)).status).toBe(409);
  expect((await world.api.get(`/threads/${threadId}`)).status).toBe(200);
});

test("PATCH by a key keeps what a person wrote in trash, with its files, and undo brings it back", async () => {
  await setPassword(world, world.owner.userId);
  const person = await signIn(world, ALICE);
  const written = {
    from: ALICE,
    to: MAX,
    bcc: "secret@remote.example",
    subject: "Mine",
    text: "What I thought about all night",
  };
  const { body: saved } = await person.send<{ draftId: string; revision: number }>("POST", "/drafts", written);
  const headers = { "content-type": "text/csv", origin: world.http };
  const upload = { method: "POST", headers, body: "a,b" };
  expect((await person.fetch(`/drafts/${saved.draftId}/attachments?name=a.csv`, upload)).status).toBe(201);
  const scopes = ["read", "write", "send"];
  const made = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", { name: "Agent", scopes });
  const agent = world.apiWith(made.body.key);
  const changed = await change(
    saved.draftId,
    { revision: saved.revision, subject: "Theirs", text: "Buy now", attachments: [] },
    agent,
  );
  expect(changed).toMatchObject({ status: 200, body: { subject: "Theirs", text: "Buy now", attachments: [] } });
  const listed = async (folder: string) =>
    (
      await world.api.get<{ threads: { id: string; subject: string }[] }>(`/threads?folder=${folder}`)
    ).body.threads.filter(({ subject }) => subject === "Mine" || subject === "Theirs");
  const [former, ...more] = await listed("trash");
  expect([former?.subject, more]).toEqual(["Mine", []]);
  // What the key wrote itself, it may write again.
  const again = await change(saved.draftId, { revision: changed.body.revision, text: "Buy two" }, agent);
  expect([again.status, (await listed("trash")).length]).toEqual([200, 1]);
  // A person's words in it are a person's.
  const mended = { ...written, revision: again.body.revision, text: "Better not" };
  const { body: mine } = await person.send<{ revision: number }>("PATCH", `/drafts/${saved.draftId}`, mended);
  expect((await change(saved.draftId, { revision: mine.revision, text: "Buy three" }, agent)).status).toBe(200);
  expect(await listed("trash")).toHaveLength(2);
  const undone = await world.api.post(`/api/admin/v1/keys/${made.body.id}/undo`, { since: "2020-01-01T00:00:00Z" });
  expect(undone).toMatchObject({ status: 200, body: { threads: 2, leftChanges: 0 } });
  expect(await listed("trash")).toEqual([]);
  const back = (await get(former?.id ?? "")).body;
  expect(back).toMatchObject({ subject: "Mine", text: written.text, bcc: [{ email: "secret@remote.example" }] });
  expect(back.attachments.map(({ filename }) => filename)).toEqual(["a.csv"]);
});

describe("what a person opens of a draft that an agent wrote", () => {
  interface Opened {
    draftId: string;
    revision: number;
    agent: { key: string } | null;
    added?: object[];
  }
  const EVIL = "evil@elsewhere.example";

  test("names the fields that it goes out with, and sends the text of the HTML that they see", async () => {
    await setPassword(world, world.owner.userId);
    const person = await signIn(world, ALICE);
    const subject = "The offer";
    const { body: made } = await create({
      ...{ to: MAX, subject, replyTo: EVIL, headers: { "X-Confirm-Reading-To": EVIL, "X-Campaign": "Spring" } },
      ...{ html: "<p>Pay as agreed.</p>", text: `Pay to ${EVIL} instead.` },
    });
    const { body: opened } = await person.get<Opened>(`/drafts/${made.id}`);
    expect(opened.added).toEqual([
      { name: "Reply-To", value: EVIL },
      { name: "X-Confirm-Reading-To", value: EVIL },
      { name: "X-Campaign", value: "Spring" },
    ]);
    const request = { from: ALICE, to: MAX, subject, revision: opened.revision, attachments: [] };
    expect((await person.send("POST", `/drafts/${made.id}/send`, request)).status).toBe(200);
    await world.advance(60_000);
    await world.server.settled();
    const { body } = await world.asMax.get<{ messages: { id: string; subject: string }[] }>(
      `/messages?mailbox=${MAX}&direction=inbound`,
    );
    const id = body.messages.find((message) => message.subject === subject)?.id;
    const { message } = (await world.asMax.get<{ message: { text: string } }>(`/messages/${id}`)).body;
    expect(message.text.trim()).toBe("Pay as agreed.");
  });

  test("says so where a key changed what a person began", async () => {
    await setPassword(world, world.owner.userId);
    const person = await signIn(world, ALICE);
    const written = { from: ALICE, to: MAX, subject: "Begun by me", text: "Hello" };
    const { body: mine } = await person.send<Opened>("POST", "/drafts", written);
    expect((await person.get<Opened>(`/drafts/${mine.draftId}`)).body.agent).toBeNull();
    const changed = await change(mine.draftId, { revision: mine.revision, text: "Buy now", replyTo: EVIL });
    expect(changed.body.replyTo).toEqual([{ email: EVIL }]);
    const { body: opened } = await person.get<Opened>(`/drafts/${mine.draftId}`);
    expect(opened).toMatchObject({ agent: { key: "Tests" }, added: [{ name: "Reply-To", value: EVIL }] });
    await person.send("PATCH", `/drafts/${mine.draftId}`, { ...written, revision: opened.revision });
    expect((await person.get<Opened>(`/drafts/${mine.draftId}`)).body.agent).toMatchObject({ key: "Tests" });
  });
});

test("a person's draft that a key sends and that is held stays in trash, and undo brings it back", async () => {
  await setPassword(world, world.owner.userId);
  const person = await signIn(world, ALICE);
  const { body: agent } = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", {
    ...{ name: "Agent", scopes: ["read", "write", "send"], policy: { send: "hold" } },
  });
  const api = world.apiWith(agent.key);
  const inTrash = async (subject: string) =>
    (await world.api.get<{ threads: { id: string; subject: string }[] }>("/threads?folder=trash")).body.threads.filter(
      (thread) => thread.subject === subject,
    );
  const later = new Date(world.runtime.now() + 86_400_000).toISOString();
  for (const [subject, how] of [
    ["Held now", {}],
    ["Held for later", { sendAt: later }],
  ] as const) {
    const written = { from: ALICE, to: MAX, subject, text: "Only I know" };
    const { body: mine } = await person.send<{ draftId: string }>("POST", "/drafts", written);
    const sent = await send(mine.draftId, how, api);
    expect(sent).toMatchObject({ status: 202, body: { held: true } });
    expect((await inTrash(subject)).map(({ id }) => id)).toEqual([mine.draftId]);
    // What the key wrote is its own.
    const { body: its } = await create({ ...whole, subject: `${subject}, by a key` }, api);
    expect((await send(its.id, how, api)).status).toBe(202);
    expect(await inTrash(`${subject}, by a key`)).toEqual([]);
    const undone = await world.api.post(`/api/admin/v1/keys/${agent.id}/undo`, { since: "2020-01-01T00:00:00Z" });
    expect(undone.status).toBe(200);
    expect((await get(mine.draftId)).body).toMatchObject({ subject, text: "Only I know" });
  }
});

test("so does one that is held when its time comes, since its key may send less by then", async () => {
  await setPassword(world, world.owner.userId);
  const person = await signIn(world, ALICE);
  const scopes = ["read", "write", "send"];
  const made = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", { name: "Agent", scopes });
  const written = { from: ALICE, to: MAX, subject: "Held when due", text: "Only I know" };
  const { body: mine } = await person.send<{ draftId: string }>("POST", "/drafts", written);
  const sendAt = new Date(world.runtime.now() + 60_000).toISOString();
  expect((await send(mine.draftId, { sendAt }, world.apiWith(made.body.key))).status).toBe(202);
  await world.api.patch(`/api/admin/v1/keys/${made.body.id}`, { policy: { send: "hold" } });
  await world.advance(120_000);
  await world.server.settled();
  const { body } = await world.api.get<{ threads: { id: string; subject: string }[] }>("/threads?folder=trash");
  expect(body.threads.filter(({ subject }) => subject === written.subject).map(({ id }) => id)).toEqual([mine.draftId]);
});

describe("POST /drafts/{id}/send", () => {
  test("sends what is stored, and the draft is gone", async () => {
    const subject = "Sent from a draft";
    const { body } = await create({ ...whole, subject, attachments: [{ filename: "a.txt", text: "a" }] });
    const sent = await send(body.id, { revision: 1 });
    expect([sent.status, sent.body.from]).toEqual([202, ALICE]);
    expect((await get(body.id)).status).toBe(404);
    expect(await inboxOfMax()).toContain(subject);
    const { body: copy } = await world.api.get<{ message: { attachments: object[]; messageId: string } }>(
      `/messages/${sent.body.emailId}`,
    );
    expect([copy.message.attachments.length, copy.message.messageId]).toEqual([1, sent.body.messageId]);
  });

  test("once for one idempotency key, also after the draft is gone", async () => {
    const { body } = await create({ ...whole, subject: "Once" });
    const headers = { "idempotency-key": "send-draft" };
    const first = await send(body.id, {}, world.api, headers);
    const again = await send(body.id, {}, world.api, headers);
    expect([again.status, again.body]).toEqual([202, first.body]);
    expect((await inboxOfMax()).filter((subject) => subject === "Once")).toHaveLength(1);
  });

  test("a reply joins its conversation", async () => {
    const { threadId } = await world.receive(ALICE, "Asked", { from: `Max <${MAX}>` });
    const made = await world.api.post<{ draftId: string }>(`/threads/${threadId}/draft`, { text: "Answered" });
    expect((await send(made.body.draftId)).body.threadId).toBe(threadId);
  });

  test.each<[string, object, number, RegExp]>([
    ["without recipients", { text: "x" }, 422, /no recipient/],
    ["without content", { to: MAX }, 422, /neither text nor html/],
  ])("%s is refused", async (_, fields, status, says) => {
    const { body } = await create(fields);
    const answer = await send(body.id);
    expect([answer.status, answer.body.error]).toEqual([status, expect.stringMatching(says)]);
    expect((await get(body.id)).status).toBe(200);
  });

  test("of another revision is 409; without the scope send 403", async () => {
    const { body } = await create(whole);
    expect(await send(body.id, { revision: 7 })).toMatchObject({ status: 409 });
    expect(await send(body.id, {}, world.apiWith(world.keyOf(world.owner.userId, ["write"])))).toMatchObject({
      status: 403,
    });
  });
});

describe("sendAt", () => {
  const later = (ms: number) => new Date(world.runtime.now() + ms).toISOString();
  const sendLater = (body: object, as = world.api, headers?: Record<string, string>) =>
    as.post<Sent>("/send", { ...whole, ...body }, headers);

  test("keeps a message until then, and sends it under the Message-ID that was told", async () => {
    const sendAt = later(3_600_000);
    const attachments = [{ filename: "a.txt", text: "a" }];
    const { status, body } = await sendLater({ subject: "In an hour", sendAt, attachments });
    expect([status, body]).toMatchObject([202, { scheduled: true, sendAt, emailId: null, draftId: body.threadId }]);
    expect((await get(body.draftId ?? "")).body).toMatchObject({ sendAt, subject: "In an hour" });
    await world.advance(3_599_999);
    expect(await inboxOfMax()).not.toContain("In an hour");
    await world.advance(1);
    expect(await inboxOfMax()).toContain("In an hour");
    const { body: found } = await world.api.get<{ messages: { folder: string }[] }>(
      `/messages?messageId=${encodeURIComponent(body.messageId)}&mailbox=${ALICE}`,
    );
    expect(found.messages.map(({ folder }) => folder)).toEqual(["sent"]);
    expect((await get(body.draftId ?? "")).status).toBe(404);
  });

  test("of a reply joins its conversation when it is sent", async () => {
    const { threadId } = await world.receive(ALICE, "To be answered", { from: `Max <${MAX}>` });
    const { body } = await world.api.post<Sent>(`/threads/${threadId}/reply`, { text: "Soon", sendAt: later(60_000) });
    expect(body).toMatchObject({ scheduled: true, threadId });
    expect(body.draftId).not.toBe(threadId);
    await world.advance(60_000);
    const { body: thread } = await world.api.get<{ messages: { text: string }[] }>(`/threads/${threadId}`);
    expect(thread.messages.map(({ text }) => text.trim())).toEqual(["Hello", "Soon"]);
  });

  test("is cancelled by discarding the draft, or by trash", async () => {
    const first = await sendLater({ subject: "Cancelled", sendAt: later(60_000) });
    expect((await world.api.delete(`${EXT}/drafts/${first.body.draftId}`)).status).toBe(200);
    const second = await sendLater({ subject: "Cancelled", sendAt: later(60_000) });
    await world.api.patch(`/threads/${second.body.draftId}`, { folder: "trash" });
    await world.advance(60_000);
    expect(await inboxOfMax()).not.toContain("Cancelled");
  });

  test("of a draft; it does not change meanwhile", async () => {
    const { body } = await create({ ...whole, subject: "Scheduled draft" });
    const sent = await send(body.id, { sendAt: later(60_000) });
    expect([sent.status, sent.body]).toMatchObject([202, { scheduled: true, draftId: body.id }]);
    const { revision } = (await get(body.id)).body;
    expect(await change(body.id, { revision, text: "x" })).toMatchObject({ status: 409 });
    expect(await send(body.id)).toMatchObject({ status: 409 });
    await world.advance(60_000);
    expect(await inboxOfMax()).toContain("Scheduled draft");
  });

  test("with an idempotency key schedules once", async () => {
    const headers = { "idempotency-key": "later" };
    const sendAt = later(60_000);
    const first = await sendLater({ subject: "Once later", sendAt }, world.api, headers);
    expect((await sendLater({ subject: "Once later", sendAt }, world.api, headers)).body).toEqual(first.body);
    expect(await sendLater({ subject: "Once later", sendAt: later(61_000) }, world.api, headers)).toMatchObject({
      status: 422,
    });
    await world.advance(60_000);
    expect((await inboxOfMax()).filter((subject) => subject === "Once later")).toHaveLength(1);
  });

  test("waits for a person once the key was revoked", async () => {
    const { core } = world.opened;
    const { store } = core;
    const made = store.transact((tx) =>
      developers.createKey(core, tx, { userId: world.owner.userId, name: "Gone soon", scopes: ["send", "read"] }),
    );
    const { body } = await sendLater({ subject: "Of a revoked key", sendAt: later(60_000) }, world.apiWith(made.key));
    store.transact((tx) => developers.revokeKey(core, tx, made.id));
    await world.advance(60_000);
    expect(await inboxOfMax()).not.toContain("Of a revoked key");
    expect(await get(body.draftId ?? "")).toMatchObject({ status: 404 });
    expect((await world.api.get("/threads?folder=drafts")).body.threads).toContainEqual(
      expect.objectContaining({ subject: "Of a revoked key" }),
    );
  });

  test("is checked now, too", async () => {
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) =>
      outbound.suppress(core, tx, {
        workspaceId: world.owner.workspaceId,
        address: "stop@remote.example",
        reason: "Asked",
      }),
    );
    expect(await sendLater({ to: "stop@remote.example", sendAt: later(60_000) })).toMatchObject({ status: 422 });
  });

  test.each([["2020-01-01T00:00:00Z"], ["2099-01-01T00:00:00Z"], ["soon"], [5]])("%p is 400", async (sendAt) => {
    expect(await sendLater({ sendAt })).toMatchObject({ status: 400, body: { code: "bad_request" } });
  });

  test("a draft for a person takes none", async () => {
    const { threadId } = await world.receive(ALICE, "Draft it");
    const answer = await world.api.post(`/threads/${threadId}/draft`, { text: "x", sendAt: later(60_000) });
    expect(answer).toMatchObject({ status: 400, body: { code: "bad_request" } });
  });
});

describe("GET /messages/{id}", () => {
  test("has folder, mailbox, references, Reply-To and how to leave the list", async () => {
    const { emailId } = await world.receive(ALICE, "Newsletter", {
      headers: [
        "Reply-To: Editors <editors@remote.example>",
        "In-Reply-To: <one@remote.example>",
        "References: <zero@remote.example> <one@remote.example>",
        "List-Unsubscribe: <mailto:leave@remote.example>, <https://remote.example/leave?u=1>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
      ],
    });
    const { body } = await world.api.get<{ message: object }>(`/messages/${emailId}?html=false`);
    expect(body.message).toMatchObject({
      folder: "inbox",
      mailbox: ALICE,
      inReplyTo: "<one@remote.example>",
      references: ["<zero@remote.example>", "<one@remote.example>"],
      replyTo: [{ email: "editors@remote.example", name: "Editors" }],
      listUnsubscribe: { urls: ["mailto:leave@remote.example", "https://remote.example/leave?u=1"], oneClick: true },
    });
    expect(body.message).not.toHaveProperty("delivery");
  });

  test("of sent mail has the state of its delivery, of Bcc to the sender alone", async () => {
    const sent = await world.api.post<Sent>("/send", {
      ...whole,
      to: [MAX, "x@gone.example"],
      bcc: "hidden@gone.example",
    });
    await world.server.settled();
    const delivery = async (as: Client) =>
      (
        await as.get<{ message: { delivery: { state: string; recipients: { recipient: string }[] } } }>(
          `/messages/${sent.body.emailId}`,
        )
      ).body.message.delivery;
    const own = await delivery(world.api);
    expect(own.recipients.map(({ recipient }) => recipient)).toEqual([MAX, "x@gone.example", "hidden@gone.example"]);
    expect(["waiting", "partly"]).toContain(own.state);
    const his = await delivery(world.asMax);
    expect(his.recipients.map(({ recipient }) => recipient)).toEqual([MAX, "x@gone.example"]);
    const local = await world.api.post<Sent>("/send", whole);
    await world.server.settled();
    const { body } = await world.api.get<{ message: { delivery: object } }>(`/messages/${local.body.emailId}`);
    expect(body.message.delivery).toEqual({
      state: "delivered",
      recipients: [{ recipient: MAX, field: "to", state: "delivered" }],
    });
  });
});
