/** Tidying over HTTP: changing several conversations at once, undo, labels, people, events. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import { type Page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { mailer, type Sender } from "../../harness/mail/mail.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";

const ALICE = "alice@example.test";
const BOB = "bob@example.test";
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
  const { userId } = store.transact((tx) => people.addUser(core, tx, { ...person, email: BOB, name: "Bob" }));
  bobId = userId;
  for (const id of [booted.owner.userId, userId]) await setPassword(booted, id);
  sender = mailer(booted.mx);
  alice = await signIn(booted, ALICE);
  bob = await signIn(booted, BOB);
});

interface Row {
  id: string;
  subject: string;
  folder: string;
  unread: boolean;
  starred: boolean;
  labels: string[];
  snoozedUntil?: string;
}
interface Result {
  threads: Row[];
  refused: { id: string; code: string; error: string }[];
  undo?: string;
}

/** Delivers mail from outside. Returns the id of its conversation. */
async function arrive({
  to = ALICE,
  from = "Bea <bea@remote.example>",
  text = "Text",
  more = "",
} = {}): Promise<string> {
  const subject = `Letter ${++count}`;
  const raw = `From: ${from}\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${count}@remote.example>\nDate: Mon, 05 Jan 2026 08:00:00 +0000\n${more}\n${text}\n`;
  await sender.send({ from: "bea@remote.example", to }, raw);
  const { body } = await booted.api.get<{ threads: Row[] }>(`/threads?mailbox=${to}&folder=all&limit=100`);
  const spam = await booted.api.get<{ threads: Row[] }>(`/threads?mailbox=${to}&folder=spam&limit=100`);
  const row = [...body.threads, ...spam.body.threads].find((thread) => thread.subject === subject);
  if (!row) throw new Error("it was not filed");
  return row.id;
}

/** Makes a conversation with sent mail alone. */
async function sendOne(): Promise<string> {
  const { body } = await booted.api.post<{ threadId: string }>("/send", {
    from: ALICE,
    to: BOB,
    subject: `Sent ${++count}`,
    text: "x",
  });
  await booted.server.settled();
  return body.threadId;
}

const change = (ids: string[], more: object, page = alice) =>
  page.send<Result>("POST", "/threads/change", { ids, ...more });
const undo = (id: string | undefined, page = alice) => page.send<Result>("POST", "/threads/undo", { undo: id });
const threadOf = async (id: string) => (await alice.get<{ thread: Row }>(`/threads/${id}`)).body.thread;
const inHours = (hours: number) => new Date(booted.runtime.now() + hours * HOUR).toISOString();

/** Reads everything that a move may change in the store, without counts of 0. */
function everything(): unknown {
  const read = (text: string) => booted.core.store.db.$client.query(text).all();
  return [
    "SELECT * FROM threads ORDER BY seq",
    "SELECT seq, folder, read FROM messages ORDER BY seq",
    "SELECT * FROM thread_labels ORDER BY thread_seq, position",
    "SELECT * FROM mailbox_labels",
    "SELECT * FROM sender_verdicts",
    "SELECT mailbox_id, spam, ham FROM junk_filters WHERE spam + ham > 0",
    "SELECT token, spam, ham FROM junk_tokens ORDER BY filter_seq, token",
    "SELECT message_seq, trained FROM message_judgements WHERE trained IS NOT NULL ORDER BY message_seq",
  ].map(read);
}

describe("undoing", () => {
  const FROM: Record<string, () => Promise<string>> = {
    inbox: () => arrive(),
    "read mail": async () => {
      const id = await arrive();
      await change([id], { unread: false });
      return id;
    },
    archive: async () => {
      const id = await arrive();
      await change([id], { folder: "archive" });
      return id;
    },
    spam: async () => {
      const id = await arrive({ from: `Sue <sue${count}@remote.example>` });
      await change([id], { folder: "spam" });
      return id;
    },
    sent: sendOne,
    snoozed: async () => {
      const id = await arrive();
      await change([id], { snoozedUntil: inHours(5) });
      return id;
    },
    labelled: async () => {
      const id = await arrive();
      await change([id], { addLabels: ["Oak", "Ash", "Elm"], starred: true });
      return id;
    },
  };
  const CHANGES: Record<string, () => object> = {
    archive: () => ({ folder: "archive" }),
    trash: () => ({ folder: "trash" }),
    spam: () => ({ folder: "spam" }),
    inbox: () => ({ folder: "inbox" }),
    snooze: () => ({ snoozedUntil: inHours(3) }),
    read: () => ({ unread: false }),
    unread: () => ({ unread: true }),
    star: () => ({ starred: true }),
    labels: () => ({ addLabels: ["New", "ash"], removeLabels: ["oak"] }),
    "all at once": () => ({ folder: "archive", unread: false, starred: true, addLabels: ["Done"] }),
  };
  const cases = Object.keys(FROM).flatMap((from) => Object.keys(CHANGES).map((to) => [to, from] as const));

  test.each(cases)("%s, from %s, restores the exact state before", async (to, from) => {
    const id = (await FROM[from]?.()) ?? "";
    const before = everything();
    const { status, body } = await change([id], CHANGES[to]?.() ?? {});
    expect(status).toBe(200);
    if (body.refused.length > 0) {
      // Spam cannot be snoozed, so nothing changes.
      expect([to, from, body.refused[0]?.code, body.undo]).toEqual(["snooze", "spam", "conflict", undefined]);
    } else {
      expect(await undo(body.undo)).toMatchObject({ status: 200, body: { refused: [], threads: [{ id }] } });
    }
    expect(everything()).toEqual(before);
  });

  test("of several from one sender takes back all of the junk filter's training", async () => {
    const from = "Zoe <zoe@remote.example>";
    const ids = [await arrive({ from }), await arrive({ from, text: "Cheap pills" }), await arrive({ from })];
    const before = everything();
    const { body } = await change(ids, { folder: "spam" });
    expect(everything()).not.toEqual(before);
    await undo(body.undo);
    expect(everything()).toEqual(before);
    const next = await arrive({ from });
    expect((await threadOf(next)).folder).toBe("inbox");
  });

  test("skips conversations that changed again since, and says so", async () => {
    const [one, two] = [await arrive(), await arrive()];
    const { body } = await change([one, two], { folder: "archive" });
    await alice.send("PATCH", `/threads/${one}`, { folder: "trash" });
    const answer = await undo(body.undo);
    expect(answer.body.refused).toEqual([
      { id: one, code: "conflict", error: "The conversation has changed since then" },
    ]);
    expect([(await threadOf(one)).folder, (await threadOf(two)).folder]).toEqual(["trash", "inbox"]);
  });

  test("leaves mail that arrived meanwhile unread", async () => {
    const id = await arrive();
    await change([id], { unread: false });
    const { body } = await change([id], { unread: true });
    await sender.send(
      { from: "bea@remote.example", to: ALICE },
      `From: bea@remote.example\nTo: ${ALICE}\nSubject: More\nIn-Reply-To: <${count}@remote.example>\n\nMore\n`,
    );
    expect((await alice.get<{ messages: unknown[] }>(`/threads/${id}`)).body.messages).toHaveLength(2);
    expect((await undo(body.undo)).body.refused).toEqual([]);
    expect((await threadOf(id)).unread).toBe(true);
  });

  test("works once, within half an hour, for the person who made the change and still has access", async () => {
    const id = await arrive();
    const {
      core: { store },
    } = booted.opened;
    const { mailboxId } = booted.owner;
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, bobId, "full"));
    const theirs = (await change([id], { folder: "archive" }, bob)).body.undo;
    expect((await undo(theirs)).status).toBe(404);
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, bobId, "view"));
    expect((await undo(theirs, bob)).body.refused).toMatchObject([{ id, code: "forbidden" }]);
    store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, mailboxId, bobId));
    const own = (await change([id], { folder: "trash" })).body.undo;
    expect([(await undo(own)).status, (await undo(own)).status]).toEqual([200, 404]);
    const late = (await change([id], { folder: "trash" })).body.undo;
    await booted.advance(HOUR);
    expect((await undo(late)).status).toBe(404);
  });

  test("of an expired snooze leaves the conversation in the inbox, unread", async () => {
    const id = await arrive();
    await change([id], { snoozedUntil: inHours(0.2), unread: false });
    const { body } = await change([id], { folder: "archive" });
    await booted.advance(0.4 * HOUR);
    await undo(body.undo);
    await booted.advance(1_000);
    const thread = await threadOf(id);
    expect([thread.folder, thread.unread, thread.snoozedUntil]).toEqual(["inbox", true, undefined]);
  });
});

describe("changing several", () => {
  test("names each refused conversation, and changes the others", async () => {
    const [one, two, bobs] = [await arrive(), await arrive(), await arrive({ to: BOB })];
    const { body: drafted } = await booted.api.post<{ draftId: string }>(`/threads/${one}/draft`, { text: "x" });
    const answer = await change([one, "thr_unknown", drafted.draftId, two], { folder: "archive", addLabels: ["Oak"] });
    expect(answer.body.refused.map(({ id, code }) => [id, code])).toEqual([
      ["thr_unknown", "not_found"],
      [drafted.draftId, "conflict"],
    ]);
    expect(answer.body.threads.map(({ id, folder, labels }) => [id, folder, labels])).toEqual([
      [one, "archive", ["Oak"]],
      [two, "archive", ["Oak"]],
    ]);
    expect((await threadOf(drafted.draftId)).labels).toEqual([]);
    expect((await change([one, bobs], { starred: true }, bob)).body).toMatchObject({
      refused: [{ id: one, code: "not_found" }],
      threads: [{ id: bobs, starred: true }],
    });
  });

  test("does not change a conversation that would get too many labels", async () => {
    const id = await arrive();
    for (let from = 0; from < 100; from += 20) {
      await change([id], { addLabels: Array.from({ length: 20 }, (_, i) => `L${from + i}`) });
    }
    const { body } = await change([id], { folder: "trash", starred: true, addLabels: ["one more"] });
    expect([body.refused[0]?.code, body.undo]).toEqual(["unprocessable", undefined]);
    expect(await threadOf(id)).toMatchObject({ folder: "inbox", starred: false });
    await change([id], { removeLabels: Array.from({ length: 100 }, (_, i) => `l${i}`) });
  });

  test("marking as read needs reach; other changes need manage access", async () => {
    const id = await arrive();
    const {
      core: { store },
    } = booted.opened;
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, booted.owner.mailboxId, bobId, "view"));
    expect((await change([id], { unread: false }, bob)).body.refused).toEqual([]);
    for (const more of [{ folder: "trash" }, { starred: true }, { addLabels: ["x"] }, { snoozedUntil: inHours(1) }]) {
      expect((await change([id], more, bob)).body.refused).toMatchObject([{ code: "forbidden" }]);
    }
    expect((await bob.send<Result>("POST", "/threads/delete", { ids: [id] })).body.refused).toMatchObject([
      { code: "forbidden" },
    ]);
    store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, booted.owner.mailboxId, bobId));
  });

  test.each<[string, object]>([
    ["nothing", { ids: [] }],
    ["more than a hundred", { ids: Array.from({ length: 101 }, (_, i) => `thr_${i}`) }],
    ["one twice", { ids: ["thr_a", "thr_a"] }],
    ["an unknown folder", { ids: ["thr_a"], folder: "sent" }],
    ["a label too long", { ids: ["thr_a"], addLabels: ["x".repeat(61)] }],
    ["a label of spaces", { ids: ["thr_a"], addLabels: [" "] }],
    ["a snooze into the past", { ids: ["thr_a"], snoozedUntil: "2020-01-01T00:00:00Z" }],
    ["a snooze for ages", { ids: ["thr_a"], snoozedUntil: "2999-01-01T00:00:00Z" }],
    ["a snooze until no time", { ids: ["thr_a"], snoozedUntil: "tomorrow" }],
    ["a move and a snooze", { ids: ["thr_a"], snoozedUntil: "2026-01-08T00:00:00Z", folder: "inbox" }],
  ])("%s is refused as a whole", async (_, body) => {
    expect((await alice.send("POST", "/threads/change", body)).status).toBe(400);
  });

  test("a snoozed conversation leaves the inbox, and returns on time, unread", async () => {
    const id = await arrive();
    const until = inHours(1);
    const { body } = await change([id], { unread: false, snoozedUntil: until });
    expect(body.threads).toMatchObject([{ folder: "inbox", unread: false, snoozedUntil: until }]);
    const inInbox = async () =>
      (await alice.get<{ threads: Row[] }>("/threads?limit=100")).body.threads.some((thread) => thread.id === id);
    expect(await inInbox()).toBe(false);
    await booted.advance(HOUR);
    const thread = await threadOf(id);
    expect([await inInbox(), thread.unread, thread.snoozedUntil]).toEqual([true, true, undefined]);
  });

  test("deleting for good works in drafts, trash and spam, and frees the storage", async () => {
    const usage = async () => (await alice.get<{ bytes: number; quotaBytes: number }>(`/usage?mailbox=${ALICE}`)).body;
    const before = await usage();
    expect(before.quotaBytes).toBeGreaterThan(before.bytes);
    const [trashed, spam, kept] = [await arrive(), await arrive(), await arrive()];
    await change([trashed], { folder: "trash" });
    await change([spam], { folder: "spam" });
    const { body } = await alice.send<{ deleted: string[]; refused: Result["refused"] }>("POST", "/threads/delete", {
      ids: [trashed, kept, spam],
    });
    expect([body.deleted, body.refused.map(({ id, code }) => [id, code])]).toEqual([
      [trashed, spam],
      [[kept, "conflict"]],
    ]);
    expect((await alice.get(`/threads/${trashed}`)).status).toBe(404);
    const after = await usage();
    await change([kept], { folder: "trash" });
    await alice.send("POST", "/threads/delete", { ids: [kept] });
    expect([after.bytes > before.bytes, (await usage()).bytes]).toEqual([true, before.bytes]);
    expect((await bob.get(`/usage?mailbox=${ALICE}`)).status).toBe(404);
  });
});

test("the labels of a mailbox are those in use, in its own spelling, until the last conversation loses them", async () => {
  const labels = async () =>
    (await bob.get<{ labels: { label: string; threads: number; colour: string | null }[] }>(`/labels?mailbox=${BOB}`))
      .body.labels;
  expect(await labels()).toEqual([]);
  const [one, two] = [await arrive({ to: BOB }), await arrive({ to: BOB })];
  await change([one, two], { addLabels: ["Straße"] }, bob);
  await change([two], { addLabels: ["STRASSE", "Billing"] }, bob);
  expect(await labels()).toEqual([
    { label: "Billing", threads: 1, colour: null },
    { label: "Straße", threads: 2, colour: null },
  ]);
  await change([one], { removeLabels: ["strasse"] }, bob);
  await change([two], { folder: "trash" }, bob);
  expect((await labels()).map(({ threads }) => threads)).toEqual([1, 1]);
  await bob.send("POST", "/trash/empty", { mailbox: BOB });
  expect(await labels()).toEqual([]);
  expect((await bob.get(`/labels?mailbox=${ALICE}`)).status).toBe(404);
});

test("people are found by the beginning of an address or of a word of their name, never by Bcc", async () => {
  await arrive({ to: BOB, from: "José Núñez <jn@remote.example>", more: "Cc: Kim <kim@remote.example>\n" });
  await booted.api.post("/send", { from: ALICE, to: BOB, bcc: "kay@secret.example", text: "x", subject: "Hidden" });
  const found = async (q: string) =>
    (
      await bob.get<{ people: { email: string }[] }>(`/people?mailbox=${BOB}&q=${encodeURIComponent(q)}`)
    ).body.people.map(({ email }) => email);
  expect(await Promise.all(["nun", "JOSÉ n", "ki", "jn@", "emote", "kay"].map(found))).toEqual([
    ["jn@remote.example"],
    ["jn@remote.example"],
    ["kim@remote.example"],
    ["jn@remote.example"],
    [],
    [],
  ]);
  expect((await bob.get(`/people?mailbox=${ALICE}&q=a`)).status).toBe(404);
});

test("the reason for spam is shown to people who reach the message", async () => {
  const from = "Max <max@junk.example>";
  await change([await arrive({ from })], { folder: "spam" });
  const id = await arrive({ from });
  expect((await threadOf(id)).folder).toBe("spam");
  const { body } = await alice.get<{ messages: { id: string }[] }>(`/threads/${id}`);
  const path = `/messages/${body.messages[0]?.id}/judgement`;
  expect((await alice.get(path)).body).toEqual({ filedFor: "sender", score: null, clues: [], trained: null });
  expect((await bob.get(path)).status).toBe(404);
});

test("the delivery of a sent message: every recipient for its sender, no Bcc for others", async () => {
  const {
    core: { store },
  } = booted.opened;
  const sent = await alice.send<{ emailId: string }>("POST", "/send", {
    ...{ from: ALICE, to: BOB, cc: "cy@nowhere.invalid", bcc: "secret@hidden.invalid", subject: "Fate", text: "x" },
  });
  await booted.advance(1_000);
  const path = `/messages/${sent.body.emailId}/progress`;
  const seen = async (page: Page) =>
    (await page.get<{ recipients: { email: string; state: string; reply: string | null }[] }>(path)).body.recipients;
  expect((await seen(alice)).map(({ email, state }) => [email, state])).toEqual([
    [BOB, "delivered"],
    ["cy@nowhere.invalid", "bounced"],
    ["secret@hidden.invalid", "bounced"],
  ]);
  expect((await bob.get(path)).status).toBe(404);
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, booted.owner.mailboxId, bobId, "full"));
  const theirs = await seen(bob);
  expect(theirs.map(({ email }) => email)).toEqual([BOB, "cy@nowhere.invalid"]);
  expect(JSON.stringify(theirs)).not.toContain("hidden");
  store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, booted.owner.mailboxId, bobId));
});

describe("events for the page", () => {
  const readers = new Set<ReadableStreamDefaultReader<Uint8Array>>();
  afterAll(() => Promise.all([...readers].map((reader) => reader.cancel())));

  /** Opens a stream, with its text so far and a way to wait for more. */
  async function listen(page: Page, { after, lastId }: { after?: number; lastId?: string } = {}) {
    const answer = await page.fetch(after === undefined ? "/live" : `/live?after=${after}`, {
      headers: lastId === undefined ? {} : { "last-event-id": lastId },
    });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    readers.add(reader);
    let said = "";
    return {
      async until(pattern: RegExp): Promise<string> {
        while (!pattern.test(said)) {
          const { value, done } = await reader.read();
          if (done) throw new Error(`the stream ended after ${said}`);
          said += new TextDecoder().decode(value);
        }
        const heard = said;
        said = "";
        return heard;
      },
      async close() {
        readers.delete(reader);
        await reader.cancel();
      },
    };
  }

  const DOINGS: [string, (id: string) => unknown][] = [
    ["a move over the API", (id) => booted.api.patch(`/threads/${id}`, { folder: "archive" })],
    ["a star", (id) => booted.api.patch(`/threads/${id}`, { starred: true })],
    ["read state", (id) => booted.api.patch(`/threads/${id}`, { read: true })],
    ["a label", (id) => booted.api.patch(`/threads/${id}`, { addLabels: ["News"] })],
    ["a label taken off", (id) => booted.api.patch(`/threads/${id}`, { removeLabels: ["News"] })],
    ["a snooze in another tab", (id) => change([id], { snoozedUntil: inHours(1) })],
    ["its end", () => booted.advance(HOUR)],
    ["an answer", (id) => booted.api.post(`/threads/${id}/reply`, { text: "x" })],
  ];

  test("name changed conversations, whatever the cause", async () => {
    const id = await arrive();
    const stream = await listen(alice);
    await stream.until(/event: hello/);
    for (const [, act] of DOINGS) {
      await act(id);
      await booted.advance(1_000);
      expect(await stream.until(/event: mail\n.*\n.*\n/)).toContain(id);
    }
    const { body } = await booted.api.post<{ draftId: string }>(`/threads/${id}/draft`, { text: "x" });
    const named = new RegExp(`event: mail\\n.*\\n.*${body.draftId}.*\\n`);
    await booted.advance(1_000);
    await stream.until(named);
    await alice.send("POST", "/threads/delete", { ids: [body.draftId] });
    await booted.advance(1_000);
    await stream.until(named);
    await stream.close();
  });

  test("after a break name all changes in between, in one event", async () => {
    const stream = await listen(alice);
    const [, lastId = ""] = /id: (\d+)/.exec(await stream.until(/event: hello\n.*\n/)) ?? [];
    await stream.close();
    const [one, two] = [await arrive(), await arrive()];
    await change([one], { starred: true });
    const again = await listen(alice, { lastId });
    const heard = await again.until(/event: mail\n.*\n.*\n/);
    expect(JSON.parse(/data: (.*threadIds.*)/.exec(heard)?.[1] ?? "").threadIds).toEqual([two, one]);
    await again.close();
  });

  test("begin at the position that the page got with its session", async () => {
    const { body } = await alice.get<{ news: number }>("/me");
    const id = await arrive();
    const stream = await listen(alice, { after: body.news });
    expect(await stream.until(/event: mail\n.*\n.*\n/)).toContain(id);
    await stream.close();
  });

  test("are only about mail in the person's reach", async () => {
    const { body } = await bob.get<{ news: number }>("/me");
    const hers = await arrive();
    const his = await arrive({ to: BOB });
    const stream = await listen(bob, { after: body.news });
    const heard = await stream.until(/event: mail\n.*\n.*\n/);
    expect([heard.includes(his), heard.includes(hers)]).toEqual([true, false]);
    await stream.close();
  });

  test("give the event `all` after too many changes, or from an unknown position", async () => {
    const { body } = await alice.get<{ news: number }>("/me");
    const sqlite = booted.core.store.db.$client;
    const note = sqlite.prepare(
      "INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind) VALUES (?, ?, ?, 'gone')",
    );
    sqlite.transaction(() => {
      for (let n = 0; n < 21_000; n++) note.run(-n, `thr_${n}`, booted.owner.mailboxId);
    })();
    const latest = (await alice.get<{ news: number }>("/me")).body.news;
    for (const after of [body.news, latest - 19_000, latest - 500, latest + 7]) {
      const stream = await listen(alice, { after });
      expect(await stream.until(/event: all\n.*\n.*\n/)).toContain(`id: ${latest}`);
      await stream.close();
    }
  });
});
