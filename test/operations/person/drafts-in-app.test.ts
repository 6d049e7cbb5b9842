/** Writing mail in the app, over HTTP: drafts of people and agents, attachments, forwarding, sending with undo, sending later. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as outbound from "../../../src/admin/outbound.ts";
import * as people from "../../../src/admin/people.ts";
import type { DueDraft } from "../../../src/compose/draft-sending.ts";
import { readMailboxUsage } from "../../../src/mailbox/state/mailboxes.ts";
import { type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { mailer, type Sender } from "../../harness/mail/mail.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
const UNDO_MS = 10_000;
const HOUR = 3_600_000;
let booted: Booted;
let sender: Sender;
let alice: Page;
let bob: Page;
let bobId: string;
let count = 0;

beforeAll(async () => {
  booted = await boot();
  const { core } = booted.opened;
  const { store } = core;
  const person = { workspaceId: booted.owner.workspaceId, role: "member", ownMailbox: true } as const;
  bobId = store.transact((tx) => people.addUser(core, tx, { ...person, email: BOB, name: "Bob" })).userId;
  for (const id of [booted.owner.userId, bobId]) await setPassword(booted, id);
  sender = mailer(booted.mx);
});
beforeEach(async () => {
  alice = await signIn(booted, ALICE);
  bob = await signIn(booted, BOB);
});

interface Draft {
  emailId: string;
  draftId: string;
  revision: number;
  savedAt: string;
  text: string;
  html: boolean;
  subject: string;
  room: number;
  attachments: { id: string; filename: string; contentType: string; size: number; inline: boolean; url: string }[];
  unfinished: Record<string, string>;
  answers: string | null;
  agent: unknown;
  dueAt: string | null;
  refusal: string | null;
  to: { email: string; name?: string }[];
  cc: { email: string; name?: string }[];
  bcc: { email: string; name?: string }[];
  from: string;
}
interface Message {
  id: string;
  threadId: string;
  subject: string;
  text: string;
  html?: string;
  to: { email: string }[];
  bcc?: { email: string }[];
  attachments: { id: string; filename: string; contentType: string; size: number; inline: boolean }[];
}

/** Delivers mail from outside to Alice. Returns the ids of its conversation and message. */
async function arrive(more = "", body = "Text", id = `<${count + 1}@remote.example>`) {
  const subject = `Subject ${++count}`;
  const header = id === "" ? "" : `Message-ID: ${id}\n`;
  await sender.send(
    { from: "bea@remote.example", to: ALICE },
    `From: Bea <bea@remote.example>\nTo: ${ALICE}\nSubject: ${subject}\n${header}Date: Mon, 05 Jan 2026 08:00:00 +0000\n${more}\n${body}\n`,
  );
  const { body: list } = await booted.api.get<{ messages: { id: string; threadId: string; subject: string }[] }>(
    "/messages?limit=100",
  );
  const found = list.messages.find((message) => message.subject === subject);
  if (!found) throw new Error("it was not filed");
  return { subject, threadId: found.threadId, messageId: found.id };
}

const letter = (more: object = {}) => ({ from: ALICE, to: BOB, subject: "Lunch", text: "Noon?", ...more });
const open = async (id: string, page = alice) => (await page.get<Draft>(`/drafts/${id}`)).body;
const statusOf = async (asked: Promise<{ status: number }>) => (await asked).status;

async function begin(more: object = {}, page = alice): Promise<Draft> {
  const { status, body } = await page.send<Draft>("POST", "/drafts", letter(more));
  expect(status).toBe(201);
  return open(body.draftId, page);
}

/** Makes a draft as Alice's agent, in reply to mail. */
async function agentDraft(more: object = {}) {
  const { threadId } = await arrive();
  const { body } = await booted.api.post<{ draftId: string }>(`/threads/${threadId}/draft`, {
    text: "Dear Bea",
    ...more,
  });
  return { threadId, draft: await open(body.draftId) };
}

/** Sends a draft as the page does, with the fields that the draft shows. */
const send = (draft: Draft, more: object = {}, page = alice) =>
  page.send<{ sent?: { emailId: string; threadId: string }; due?: DueDraft }>(
    "POST",
    `/drafts/${draft.draftId}/send`,
    letter({ revision: draft.revision, attachments: draft.attachments.map(({ id }) => id), ...more }),
  );

const upload = async (
  draftId: string,
  name: string,
  bytes: Uint8Array<ArrayBuffer> | string,
  type = "text/plain",
  page = alice,
) => {
  const answer = await page.fetch(`/drafts/${draftId}/attachments?name=${encodeURIComponent(name)}`, {
    method: "POST",
    headers: { "content-type": type },
    body: bytes,
  });
  return { status: answer.status, body: (await answer.json()) as Draft["attachments"][number] & { error: string } };
};

const sentCopies = async (subject: string) =>
  (await alice.get<{ messages: Message[] }>("/messages?direction=outbound&folder=sent&limit=100")).body.messages.filter(
    (message) => message.subject === subject,
  );
const messageOf = async (id: string) => (await alice.get<{ message: Message }>(`/messages/${id}`)).body.message;
const newSubject = () => `Own ${++count}`;

describe("a draft", () => {
  test("is stored, listed under Drafts, and opened with all its content", async () => {
    const subject = newSubject();
    const draft = await begin({ subject, cc: "Cy <cy@remote.example>", bcc: "boss@remote.example" });
    expect(draft).toEqual({
      draftId: expect.stringMatching(/^thr_/),
      emailId: expect.stringMatching(/^msg_/),
      revision: 1,
      savedAt: new Date(booted.runtime.now()).toISOString(),
      from: ALICE,
      to: [{ email: BOB }],
      cc: [{ email: "cy@remote.example", name: "Cy" }],
      bcc: [{ email: "boss@remote.example" }],
      unfinished: { to: "", cc: "", bcc: "" },
      subject,
      text: "Noon?",
      html: false,
      attachments: [],
      room: expect.any(Number),
      answers: null,
      agent: null,
      dueAt: null,
      refusal: null,
    });
    const { body } = await alice.get<{ threads: { id: string; subject: string }[] }>(
      "/threads?folder=drafts&limit=100",
    );
    expect(body.threads.find(({ id }) => id === draft.draftId)?.subject).toBe(subject);
  });

  test("keeps unfinished recipients as they were typed, and sends nothing to them", async () => {
    const draft = await begin({ to: "Bea <bea@remote.example>, cy@", bcc: "bo" });
    expect([draft.to, draft.bcc, draft.unfinished]).toEqual([
      [{ email: "bea@remote.example", name: "Bea" }],
      [],
      { to: "cy@", cc: "", bcc: "bo" },
    ]);
    expect((await send(draft, { to: "Bea <bea@remote.example>, cy@" })).status).toBe(422);
  });

  test("is saved under the same id, and search finds its new words and not its old ones", async () => {
    const [before, after] = [`quokka${++count}`, `wombat${++count}`];
    const draft = await begin({ text: before });
    const { status, body } = await alice.send<Draft>(
      "PATCH",
      `/drafts/${draft.draftId}`,
      letter({ revision: 1, text: after, to: "cy@remote.example", subject: after }),
    );
    expect([status, body.draftId, body.revision]).toEqual([200, draft.draftId, 2]);
    expect(await open(draft.draftId)).toMatchObject({ text: after, to: [{ email: "cy@remote.example" }] });
    const found = async (q: string) =>
      (await alice.get<{ threads: { id: string; from: { email: string } }[] }>(`/search?q=${q}`)).body.threads;
    expect(await found(before)).toEqual([]);
    expect(await found(after)).toMatchObject([
      { id: draft.draftId, subject: after, from: { email: "cy@remote.example" } },
    ]);
  });

  test("is not overwritten after it was changed elsewhere", async () => {
    const draft = await begin();
    const save = (text: string) =>
      alice.send<{ error: string }>("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, text }));
    expect((await save("first")).status).toBe(200);
    const late = await save("second");
    expect([late.status, late.body.error]).toEqual([409, expect.stringContaining("changed elsewhere")]);
    expect((await open(draft.draftId)).text).toBe("first");
    expect((await send(draft)).status).toBe(409);
  });

  test("counts against the quota until it is deleted", async () => {
    const usage = () => readMailboxUsage(booted.opened.core, booted.owner.mailboxId).bytes;
    const before = usage();
    const draft = await begin();
    await upload(draft.draftId, "a.bin", new Uint8Array(5_700));
    expect(usage()).toBeGreaterThan(before + 7_800);
    await alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, text: "x".repeat(1_000) }));
    const [file] = (await open(draft.draftId)).attachments;
    await alice.send("DELETE", `/drafts/${draft.draftId}/attachments/${file?.id}`);
    expect(await statusOf(alice.send("DELETE", `/drafts/${draft.draftId}`))).toBe(204);
    expect(usage()).toBe(before);
    expect(await statusOf(alice.get(`/drafts/${draft.draftId}`))).toBe(404);
  });

  test("moves with its attachments to the mailbox of its From address", async () => {
    const { core, opened, owner } = booted;
    const address = `team${++count}@example.test`;
    core.store.transact((tx) =>
      mailboxAdmin.addMailbox(opened.core, tx, { workspaceId: owner.workspaceId, address, name: "Team" }),
    );
    const draft = await begin();
    await upload(draft.draftId, "a.txt", "A");
    const { body } = await alice.send<Draft>(
      "PATCH",
      `/drafts/${draft.draftId}`,
      letter({ revision: 1, from: address }),
    );
    expect(body.draftId).not.toBe(draft.draftId);
    expect(await statusOf(alice.get(`/drafts/${draft.draftId}`))).toBe(404);
    expect(await open(body.draftId)).toMatchObject({ from: address, attachments: [{ filename: "a.txt" }] });
  });

  test("in trash is neither changed nor sent", async () => {
    const draft = await begin();
    expect((await send(draft)).status).toBe(200);
    const trashed = await alice.send<{ undo: string }>("POST", "/threads/change", {
      ids: [draft.draftId],
      folder: "trash",
    });
    expect(await statusOf(alice.get(`/drafts/${draft.draftId}`))).toBe(409);
    await booted.advance(UNDO_MS);
    await alice.send("POST", "/threads/undo", { undo: trashed.body.undo });
    expect((await open(draft.draftId)).dueAt).toBeNull();
    await booted.advance(UNDO_MS);
    await alice.send("PATCH", `/threads/${draft.draftId}`, { folder: "trash" });
    expect((await alice.get<{ thread: { folder: string } }>(`/threads/${draft.draftId}`)).body.thread.folder).toBe(
      "trash",
    );
  });

  test.each<[string, object, number]>([
    ["to nobody", { to: "" }, 422],
    ["to no address", { to: "nobody" }, 422],
    ["from somebody else", { from: "carol@example.test" }, 422],
    ["of more than 1 MB", { text: "x".repeat(1_048_577) }, 413],
    ["at a time that has passed", { at: "2020-01-01T00:00:00Z" }, 400],
    ["in ten years", { at: "2036-01-01T00:00:00Z" }, 400],
    ["of another revision", { revision: 7 }, 409],
    ["with an attachment that is not there", { attachments: ["att_x"] }, 409],
  ])("sent %s is refused at once, and stays", async (_, wrong, status) => {
    const draft = await begin();
    expect((await send(draft, wrong)).status).toBe(status);
    expect((await open(draft.draftId)).dueAt).toBeNull();
  });

  test("is open only to people who reach its mailbox and may send from it", async () => {
    const { core, owner } = booted;
    const draft = await begin();
    const asked = () =>
      Promise.all(
        [
          bob.get(`/drafts/${draft.draftId}`),
          bob.fetch(`/drafts/${draft.draftId}/editor`),
          bob.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1 })),
          send(draft, {}, bob),
          bob.send("POST", `/drafts/${draft.draftId}/undo`),
          upload(draft.draftId, "a", "A", "text/plain", bob),
          bob.send("DELETE", `/drafts/${draft.draftId}/attachments/att_x`),
          bob.send("DELETE", `/drafts/${draft.draftId}`),
        ].map(statusOf),
      );
    expect(await asked()).toEqual(Array(8).fill(404));
    core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, bobId, "view"));
    expect(await asked()).toEqual(Array(8).fill(403));
    core.store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, owner.mailboxId, bobId));
    expect(await statusOf(bob.send("POST", "/drafts", letter()))).toBe(422);
  });

  test("has routes of its own, which refuse other conversations", async () => {
    const { threadId } = await arrive();
    expect(await statusOf(alice.get(`/drafts/${threadId}`))).toBe(409);
    expect(await statusOf(alice.send("DELETE", `/drafts/${threadId}`))).toBe(409);
  });
});

describe("a reply", () => {
  test("starts with the recipients and the quotation", async () => {
    const { threadId } = await arrive("", "Line one\nLine two");
    expect((await alice.get(`/threads/${threadId}/answer?all=true`)).body).toEqual({
      from: ALICE,
      to: [{ email: "bea@remote.example", name: "Bea" }],
      cc: [],
      subject: expect.stringMatching(/^Re: Subject \d+$/),
      quote: "On Mon, 5 Jan 2026 at 08:00 UTC, Bea <bea@remote.example> wrote:\n> Line one\n> Line two",
    });
  });

  test.each([
    ["with a Message-ID", `<anchor${Math.floor(1e6)}@remote.example>`],
    ["without one", ""],
  ])("to mail %s is a draft in its conversation, and is sent into it", async (_, id) => {
    const { threadId } = await arrive("", "Text", id);
    const draft = await begin({ answers: threadId, subject: "Re: it" });
    expect(draft.answers).toBe(threadId);
    const shown = await alice.get<{ drafts: Draft[] }>(`/threads/${threadId}/drafts`);
    const { draftId, subject, text, agent, dueAt, refusal } = draft;
    expect(shown.body.drafts).toEqual([{ draftId, subject, text, agent, dueAt, refusal } as Draft]);
    expect(await statusOf(bob.get(`/threads/${threadId}/drafts`))).toBe(404);
    await send(draft, { subject: "Re: it", text: "Hello" });
    await booted.advance(UNDO_MS);
    const { body } = await alice.get<{ messages: Message[] }>(`/threads/${threadId}`);
    expect(body.messages.map(({ text }) => text)).toEqual(["Text", "Hello"]);
    const raw = await (await alice.fetch(`/messages/${body.messages[1]?.id}/raw`)).text();
    expect(/^In-Reply-To: (.*)\r$/im.exec(raw)?.[1] ?? "").toBe(id);
    expect((await alice.get<{ drafts: Draft[] }>(`/threads/${threadId}/drafts`)).body.drafts).toEqual([]);
  });

  test("stays a draft when its conversation is deleted", async () => {
    const { threadId } = await arrive();
    const draft = await begin({ answers: threadId });
    await alice.send("PATCH", `/threads/${threadId}`, { folder: "trash" });
    expect(await statusOf(alice.send("POST", "/threads/delete", { ids: [threadId] }))).toBe(200);
    expect(await statusOf(alice.get(`/threads/${threadId}`))).toBe(404);
    expect((await open(draft.draftId)).answers).toBeNull();
    expect((await send(draft)).status).toBe(200);
  });
});

describe("an agent's draft", () => {
  test("names its key and the key's person, and shows all recipients, with Bcc, to people who may send it", async () => {
    const { draft, threadId } = await agentDraft({ bcc: "boss@remote.example" });
    expect(draft).toMatchObject({
      agent: { key: "Tests", person: "Alice" },
      bcc: [{ email: "boss@remote.example" }],
      answers: threadId,
      text: "Dear Bea",
      revision: 1,
    });
    expect((await begin()).agent).toBeNull();
  });

  test("is marked in lists, as scheduled and refused drafts are, with its recipients but those of Bcc", async () => {
    const marks = async (page = alice) =>
      (await page.get<{ drafts: { draftId: string }[] }>(`/drafts?mailbox=${ALICE}`)).body.drafts;
    const own = await begin({ to: `Bob <${BOB}>`, cc: "cy@remote.example", bcc: "boss@remote.example" });
    const { draft: made, threadId } = await agentDraft();
    const due = await begin();
    const at = (await send(due)).body.due?.at;
    const of = async (id: string) => (await marks()).find(({ draftId }) => draftId === id);
    expect(await of(own.draftId)).toEqual({
      draftId: own.draftId,
      to: [{ email: BOB, name: "Bob" }],
      cc: [{ email: "cy@remote.example" }],
      answers: null,
      agent: null,
      dueAt: null,
      refused: false,
    } as never);
    expect(await of(made.draftId)).toMatchObject({ agent: "Tests", answers: threadId, dueAt: null, refused: false });
    expect(await of(due.draftId)).toMatchObject({ agent: null, answers: null, dueAt: at, refused: false });
    expect(await statusOf(bob.get(`/drafts?mailbox=${ALICE}`))).toBe(404);
    await alice.send("DELETE", `/drafts/${due.draftId}`);
  });

  test("stays marked after a person has changed it", async () => {
    const { draft } = await agentDraft();
    await alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, text: "Hello Bea" }));
    expect(await open(draft.draftId)).toMatchObject({ agent: { key: "Tests" }, text: "Hello Bea", revision: 2 });
  });

  test("keeps its HTML while its words stay the same, or when they are edited as HTML", async () => {
    const { draft } = await agentDraft({
      html: '<p>Dear <b>Bea</b></p><table><tr><td bgcolor="red">1</td></tr></table>',
    });
    expect(draft.html).toBe(true);
    const editor = await alice.fetch(`/drafts/${draft.draftId}/editor`);
    const page = await editor.text();
    expect(page).toContain('contenteditable="true"');
    expect(page).toContain('<td bgcolor="red">1</td>');
    expect(editor.headers.get("content-security-policy")).toMatch(/default-src 'none'.*sandbox/);
    // Only the recipients change.
    await alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, text: undefined }));
    expect(await open(draft.draftId)).toMatchObject({ html: true, text: "Dear Bea\n\n1" });
    const html = '<p>Dear <b>Beatrice</b></p><script>x()</script><table><tr><td bgcolor="red">2</td></tr></table>';
    await alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 2, text: undefined, html }));
    const edited = await open(draft.draftId);
    expect(edited.text).toContain("Beatrice");
    await send(edited, { text: undefined, subject: "Of an agent" });
    await booted.advance(UNDO_MS);
    const [copy] = await sentCopies("Of an agent");
    const sent = await messageOf(copy?.id ?? "");
    expect(sent.html).toContain('<b>Beatrice</b></p><table><tbody><tr><td bgcolor="red">2</td>'.replace("<tbody>", ""));
    expect(sent.html).not.toContain("script");
  });

  test("becomes plain text when a person changes the text", async () => {
    const { draft } = await agentDraft({ html: "<p>Dear <b>Bea</b></p>" });
    await alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, text: "Hi" }));
    expect(await open(draft.draftId)).toMatchObject({ html: false, text: "Hi" });
  });
});

describe("attachments", () => {
  test("are uploaded, listed and downloaded, stay when the text is saved, and are sent", async () => {
    const subject = newSubject();
    const draft = await begin({ subject });
    const png = Uint8Array.from(Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"));
    expect(await upload(draft.draftId, "café.png", png, "image/png")).toMatchObject({
      status: 201,
      body: { filename: "café.png", contentType: "image/png", size: 16, inline: false },
    });
    await upload(draft.draftId, "notes.txt", "Notes", "text/plain; charset=utf-8");
    const { body } = await alice.send<Draft>("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, subject }));
    const ids = body.attachments.map(({ id }) => id);
    const opened = await open(draft.draftId);
    expect(opened.attachments.map(({ id }) => id)).toEqual(ids);
    const file = await alice.fetch(`/attachments/${ids[0]}`);
    expect([file.headers.get("content-type"), await file.bytes()]).toEqual(["image/png", png]);
    const { body: found } = await alice.get<{ threads: { id: string }[] }>(
      `/search?q=${encodeURIComponent(`has:attachment "${subject}" café.png`)}`,
    );
    expect(found.threads.map(({ id }) => id)).toEqual([draft.draftId]);
    await send(opened, { subject });
    await booted.advance(UNDO_MS);
    const [copy] = await sentCopies(subject);
    const sent = await messageOf(copy?.id ?? "");
    expect(sent.attachments).toMatchObject([
      { filename: "café.png", contentType: "image/png", size: 16 },
      { filename: "notes.txt", contentType: "text/plain", size: 5 },
    ]);
    expect(await (await alice.fetch(`/attachments/${sent.attachments[0]?.id}`)).bytes()).toEqual(png);
    const notes = await alice.fetch(`/attachments/${sent.attachments[1]?.id}`);
    expect(notes.headers.get("content-type")).toBe("text/plain; charset=utf-8");
  });

  test("can be removed", async () => {
    const draft = await begin();
    const { body } = await upload(draft.draftId, "a.txt", "A");
    expect(await statusOf(alice.send("DELETE", `/drafts/${draft.draftId}/attachments/${body.id}`))).toBe(204);
    expect(await statusOf(alice.send("DELETE", `/drafts/${draft.draftId}/attachments/${body.id}`))).toBe(404);
    expect((await open(draft.draftId)).attachments).toEqual([]);
    const { thread } = (await alice.get<{ thread: { hasAttachments: boolean } }>(`/threads/${draft.draftId}`)).body;
    expect(thread.hasAttachments).toBe(false);
  });

  test.each([
    ["../../../etc/passwd", "passwd"],
    ["C:\\secret\\a.txt", "a.txt"],
    ["invoice\u202Egpj.exe", "invoice gpj.exe"],
    ["a\r\nX-Evil: 1.txt", "a X-Evil: 1.txt"],
    ["", "attachment-1.txt"],
    ['<img src=x onerror="x()">.txt', '<img src=x onerror="x()">.txt'],
  ])("of the name %j are called %j", async (name, kept) => {
    const draft = await begin();
    expect((await upload(draft.draftId, name, "A")).body.filename).toBe(kept);
  });

  test("beyond the limit of a message are refused before sending, with the room that is left", async () => {
    const draft = await begin();
    const { core } = booted;
    const set = (bytes: string) => core.store.transact((tx) => core.options.set(tx, "smtp.maxMessageBytes", bytes));
    set("100000");
    try {
      const { room } = await open(draft.draftId);
      expect(room).toBeGreaterThan(70_000);
      expect(room).toBeLessThan(75_000);
      const refused = await upload(draft.draftId, "large.bin", new Uint8Array(room + 60));
      expect([refused.status, refused.body.error]).toEqual([413, expect.stringContaining(`at most ${room} more`)]);
      expect((await upload(draft.draftId, "fits.bin", new Uint8Array(room))).status).toBe(201);
      expect((await send(await open(draft.draftId))).status).toBe(200);
      await booted.advance(UNDO_MS);
      expect(await statusOf(alice.get(`/drafts/${draft.draftId}`))).toBe(404);
    } finally {
      set("26214400");
    }
  });

  test("beyond the quota are refused and not stored, and a draft that does not grow is still saved", async () => {
    const { core, owner } = booted;
    const draft = await begin();
    const bytes = new TextEncoder().encode(`only here ${draft.draftId}`);
    const setQuota = (quota: number | null) =>
      core.store.transact((tx) => mailboxAdmin.setQuota(tx, owner.mailboxId, quota));
    setQuota(0);
    try {
      expect((await upload(draft.draftId, "a.txt", bytes)).status).toBe(507);
      expect(
        await (await core.store.blobs.file(new Bun.CryptoHasher("sha256").update(bytes).digest("hex"))).exists(),
      ).toBe(false);
      const save = (text: string) =>
        statusOf(alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision: 1, text })));
      expect([await save("Noon? ".repeat(100)), await save("At 1")]).toEqual([507, 200]);
    } finally {
      setQuota(null);
    }
  });

  test("that another person added meanwhile are not sent unseen", async () => {
    const draft = await begin();
    await upload(draft.draftId, "unseen.txt", "A");
    const refused = await send(draft);
    expect([refused.status, await open(draft.draftId)]).toMatchObject([409, { dueAt: null }]);
  });
});

describe("forwarding", () => {
  const MIME = [
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="m"',
    "Cc: Cy <cy@remote.example>",
    "",
    "--m",
    'Content-Type: multipart/related; boundary="r"',
    "",
    "--r",
    "Content-Type: text/html; charset=utf-8",
    "",
    '<p>See <b>this</b> <img src="cid:pic@x"><img src="https://tracker.example/p.gif"></p>',
    "--r",
    "Content-Type: image/png",
    "Content-ID: <pic@x>",
    "Content-Disposition: inline; filename=pic.png",
    "Content-Transfer-Encoding: base64",
    "",
    "iVBORw0KGgo=",
    "--r--",
    "--m",
    "Content-Type: text/csv",
    "Content-Disposition: attachment; filename=figures.csv",
    "",
    "a,b",
    "--m--",
  ];

  test("includes header block, HTML and attachments, and fetches no remote images", async () => {
    const at = MIME.indexOf("");
    const { subject, messageId } = await arrive(`${MIME.slice(0, at).join("\n")}\n`, MIME.slice(at + 1).join("\n"));
    const { status, body } = await alice.send<Draft>("POST", `/messages/${messageId}/forward`);
    expect(status).toBe(201);
    const draft = await open(body.draftId);
    expect(draft).toMatchObject({ subject: `Fwd: ${subject}`, to: [], html: true, answers: null, from: ALICE });
    expect(draft.attachments).toMatchObject([
      { filename: "pic.png", inline: true },
      { filename: "figures.csv", inline: false },
    ]);
    for (const line of [
      "---------- Forwarded message ----------",
      "From: Bea <bea@remote.example>",
      "Date: Mon, 05 Jan 2026 08:00:00 UTC",
      `Subject: ${subject}`,
      `To: ${ALICE}`,
      "Cc: Cy <cy@remote.example>",
    ]) {
      expect(draft.text).toContain(line);
    }
    const editor = await (await alice.fetch(`/drafts/${draft.draftId}/editor`)).text();
    expect(editor).toContain(`src="/app/attachments/${draft.attachments[0]?.id}/preview"`);
    expect(editor).toContain('data-source="cid:pic@x"');
    expect(editor).not.toMatch(/\ssrc="https/);
    await send(draft, { subject: draft.subject, text: undefined });
    await booted.advance(UNDO_MS);
    const [copy] = await sentCopies(draft.subject);
    const sent = await messageOf(copy?.id ?? "");
    expect(sent.html).toContain('<b>this</b> <img src="cid:pic@x" /><img src="https://tracker.example/p.gif" />');
    expect(sent.attachments.map(({ filename, inline }) => [filename, inline])).toEqual([
      ["pic.png", true],
      ["figures.csv", false],
    ]);
    expect(sent.threadId).not.toBe((await messageOf(messageId)).threadId);
  });

  test("gives plain text for plain text", async () => {
    const { messageId } = await arrive("", "Only words");
    const { body } = await alice.send<Draft>("POST", `/messages/${messageId}/forward`);
    const draft = await open(body.draftId);
    expect([draft.html, draft.text.startsWith("\n\n----------"), draft.text.endsWith("\n\nOnly words")]).toEqual([
      false,
      true,
      true,
    ]);
  });

  test("attaches a message that is too large for the text", async () => {
    const { messageId } = await arrive("", "words ".repeat(200_000));
    const { body } = await alice.send<Draft>("POST", `/messages/${messageId}/forward`);
    const draft = await open(body.draftId);
    expect(draft.attachments).toMatchObject([{ filename: "forwarded.eml", contentType: "message/rfc822" }]);
    expect(draft.attachments[0]?.size).toBeGreaterThan(1_100_000);
  });

  test("names no Bcc when a sender forwards their own large message", async () => {
    const subject = newSubject();
    const mail = { from: ALICE, to: BOB, bcc: "boss@remote.example", subject, text: "words ".repeat(160_000) };
    expect(await statusOf(alice.send("POST", "/send", mail))).toBe(202);
    const [copy] = await sentCopies(subject);
    const raw = await (await alice.fetch(`/messages/${copy?.id}/raw`)).text();
    expect(raw).toContain("Bcc: boss@remote.example");
    const { body } = await alice.send<Draft>("POST", `/messages/${copy?.id}/forward`);
    const [file] = (await open(body.draftId)).attachments;
    const forwarded = await (await alice.fetch(`/attachments/${file?.id}`)).text();
    expect([forwarded.includes(`Subject: ${subject}`), /bcc|boss/i.test(forwarded)]).toEqual([true, false]);
  });

  test("uses the person's own address for mail of a read-only shared mailbox, and refuses messages out of reach", async () => {
    const { core, owner } = booted;
    const { messageId } = await arrive();
    expect(await statusOf(bob.send("POST", `/messages/${messageId}/forward`))).toBe(404);
    core.store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, bobId, "view"));
    const { body } = await bob.send<Draft>("POST", `/messages/${messageId}/forward`);
    expect((await open(body.draftId, bob)).from).toBe(BOB);
    core.store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, owner.mailboxId, bobId));
  });
});

describe("sending", () => {
  test("happens once, after the time for undo", async () => {
    const subject = newSubject();
    const draft = await begin({ subject });
    const { status, body } = await send(draft, { subject, text: "Changed" });
    const at = new Date(booted.runtime.now() + UNDO_MS).toISOString();
    expect([status, body]).toEqual([200, { due: { draftId: draft.draftId, at, inMs: UNDO_MS } }]);
    await booted.advance(UNDO_MS - 1);
    expect((await open(draft.draftId)).dueAt).toBe(at);
    expect(await sentCopies(subject)).toEqual([]);
    await booted.advance(1);
    expect(await statusOf(alice.get(`/drafts/${draft.draftId}`))).toBe(404);
    expect(await sentCopies(subject)).toHaveLength(1);
    await booted.advance(HOUR);
    expect(await sentCopies(subject)).toHaveLength(1);
  });

  test("can be undone, which leaves the draft as it was, to be sent again", async () => {
    const subject = newSubject();
    const draft = await begin({ subject });
    await send(draft, { subject, text: "Changed" });
    expect(await statusOf(alice.send("POST", `/drafts/${draft.draftId}/undo`))).toBe(204);
    expect(await statusOf(alice.send("POST", `/drafts/${draft.draftId}/undo`))).toBe(409);
    await booted.advance(HOUR);
    expect(await sentCopies(subject)).toEqual([]);
    const again = await open(draft.draftId);
    expect([again.text, again.dueAt]).toEqual(["Changed", null]);
    await send(again, { subject });
    await booted.advance(UNDO_MS);
    expect(await sentCopies(subject)).toHaveLength(1);
    expect(await statusOf(alice.send("POST", `/drafts/${draft.draftId}/undo`))).toBe(404);
  });

  test("refuses changes of the draft while it waits", async () => {
    const draft = await begin();
    const { body } = await upload(draft.draftId, "a.txt", "A");
    const seen = await open(draft.draftId);
    expect((await send(seen)).status).toBe(200);
    const { revision } = await open(draft.draftId);
    const asked = [
      alice.send("PATCH", `/drafts/${draft.draftId}`, letter({ revision })),
      send({ ...seen, revision }),
      upload(draft.draftId, "b.txt", "B"),
      alice.send("DELETE", `/drafts/${draft.draftId}/attachments/${body.id}`),
    ];
    expect(await Promise.all(asked.map(statusOf))).toEqual([409, 409, 409, 409]);
    // To discard it is to undo it for good.
    expect(await statusOf(alice.send("DELETE", `/drafts/${draft.draftId}`))).toBe(204);
  });

  test("happens once for two requests at the same time", async () => {
    const subject = newSubject();
    const draft = await begin({ subject });
    const statuses = await Promise.all([statusOf(send(draft, { subject })), statusOf(send(draft, { subject }))]);
    expect(statuses.sort()).toEqual([200, 409]);
    await booted.advance(UNDO_MS);
    expect(await sentCopies(subject)).toHaveLength(1);
  });

  test("happens at once without undo, and each person chooses the delay", async () => {
    const subject = newSubject();
    const draft = await begin({ subject });
    expect((await alice.get("/me/sending")).body).toEqual({ undoSeconds: 10 });
    expect(await statusOf(alice.send("PATCH", "/me/sending", { undoSeconds: 7 }))).toBe(400);
    expect(await statusOf(alice.send("PATCH", "/me/sending", { undoSeconds: 0 }))).toBe(204);
    const { body } = await send(draft, { subject });
    expect([body.due, body.sent?.emailId]).toEqual([undefined, expect.stringMatching(/^msg_/)]);
    expect(await sentCopies(subject)).toHaveLength(1);
    await alice.send("PATCH", "/me/sending", { undoSeconds: 10 });
    expect((await bob.get("/me/sending")).body).toEqual({ undoSeconds: 10 });
  });

  test("later happens at the chosen time", async () => {
    const subject = newSubject();
    const draft = await begin({ subject });
    const at = new Date(booted.runtime.now() + 5 * HOUR).toISOString();
    expect((await send(draft, { subject, at })).body.due?.at).toBe(at);
    await booted.advance(5 * HOUR - 1);
    expect(await sentCopies(subject)).toEqual([]);
    await booted.advance(1);
    expect(await sentCopies(subject)).toHaveLength(1);
  });

  test("is refused at once with the reason", async () => {
    const { opened, owner } = booted;
    const draft = await begin();
    const {
      core: { store },
    } = opened;
    store.transact((tx) => mailboxAdmin.pauseMailbox(tx, owner.mailboxId, "audit"));
    const refused = await send(draft);
    store.transact((tx) => mailboxAdmin.resumeMailbox(tx, owner.mailboxId));
    expect([refused.status, (await open(draft.draftId)).dueAt]).toEqual([423, null]);
  });

  test.each<[string, (undo: boolean) => void, string]>([
    [
      "the mailbox is paused",
      (undo) => {
        const {
          core: { store },
        } = booted.opened;
        store.transact((tx) =>
          undo
            ? mailboxAdmin.resumeMailbox(tx, booted.owner.mailboxId)
            : mailboxAdmin.pauseMailbox(tx, booted.owner.mailboxId, "audit"),
        );
      },
      "audit",
    ],
    [
      "the recipient is suppressed",
      (undo) => {
        const { core } = booted.opened;
        const { store } = core;
        const { workspaceId } = booted.owner;
        store.transact((tx) => {
          if (!undo) outbound.suppress(core, tx, { workspaceId, address: BOB, reason: "asked" });
          else
            for (const { id } of outbound.listSuppressions(core, workspaceId)) outbound.unsuppress(tx, workspaceId, id);
        });
      },
      "suppression list",
    ],
  ])("is refused when it is due and %s, and the draft stays, unread, with the reason", async (_, set, why) => {
    const subject = newSubject();
    const draft = await begin({ subject });
    await send(draft, { subject });
    set(false);
    await booted.advance(UNDO_MS);
    set(true);
    const left = await open(draft.draftId);
    expect([left.dueAt, left.refusal]).toEqual([null, expect.stringContaining(why)]);
    const { body } = await alice.get<{ drafts: object[] }>(`/drafts?mailbox=${ALICE}`);
    expect(body.drafts).toContainEqual(
      expect.objectContaining({ draftId: draft.draftId, agent: null, dueAt: null, refused: true }),
    );
    const row = await alice.get<{ thread: { unread: boolean } }>(`/threads/${draft.draftId}`);
    expect(row.body.thread.unread).toBe(true);
    expect(await sentCopies(subject)).toEqual([]);
    await send(left, { subject });
    await booted.advance(UNDO_MS);
    expect(await sentCopies(subject)).toHaveLength(1);
  });

  test("checks the sender's rights again when it is due", async () => {
    const { opened, owner } = booted;
    const {
      core: { store },
    } = opened;
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, bobId, "send"));
    const drafts = [await begin({}, bob), await begin({}, bob)];
    for (const draft of drafts) expect((await send(draft, {}, bob)).status).toBe(200);
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, bobId, "view"));
    await booted.advance(UNDO_MS);
    store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, owner.mailboxId, bobId));
    for (const draft of drafts) expect((await open(draft.draftId)).refusal).toContain("viewing only");
  });
});
