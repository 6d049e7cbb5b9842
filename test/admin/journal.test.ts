/**
 * The journal of a key: who sees it, who takes back what the key did, and what becomes of it with its person (rules: Journal,
 * Undo).
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { and, eq } from "drizzle-orm";
import type { Caller } from "../../src/access/caller.ts";
import * as developers from "../../src/admin/developers.ts";
import * as erasure from "../../src/admin/erasure.ts";
import * as journal from "../../src/admin/journal.ts";
import * as people from "../../src/admin/people.ts";
import * as removals from "../../src/admin/removals.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { type JournalEntry, listJournal, maySeeJournal } from "../../src/journal/journal-list.ts";
import { fileMessage } from "../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { journalEntries, keyChanges, MAIL_SCOPES, SCOPES } from "../../src/store/schema.ts";
import { letter } from "../harness/mail/mail.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

const EXT = "/api/ext/v1";
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const callerOf = (world: ExtWorld, who: { userId: string; role: Caller["role"]; email: string }): Caller => ({
  workspaceId: world.owner.workspaceId,
  scopes: new Set(SCOPES),
  ...who,
});
const codeOf = (work: () => unknown): string => {
  try {
    work();
    return "ok";
  } catch (error) {
    return (error as { code: string }).code;
  }
};
function newKey(world: ExtWorld, userId = world.owner.userId) {
  const { core, opened, apiWith } = world;
  const made = core.store.transact((tx) =>
    developers.createKey(opened.core, tx, { userId, name: "Agent", scopes: MAIL_SCOPES }),
  );
  return { id: made.id, api: apiWith(made.key) };
}

/** Lets time pass until the work is done. */
async function passing(world: ExtWorld, work: Promise<unknown>): Promise<void> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  while (!isDone) await world.advance(100);
  await done;
}

describe("who may see it", () => {
  const key = { workspaceId: "wsp_1", userId: "usr_1" };
  const may = (workspaceId: string, userId: string, role: Caller["role"]) =>
    maySeeJournal({ workspaceId, userId, role }, key);

  test("the key's person, and owners and admins of the workspace", () => {
    expect(may("wsp_1", "usr_1", "member")).toBe(true);
    expect(may("wsp_1", "usr_2", "admin")).toBe(true);
    expect(may("wsp_1", "usr_2", "owner")).toBe(true);
    expect(may("wsp_1", "usr_2", "member")).toBe(false);
    expect(may("wsp_2", "usr_1", "owner")).toBe(false);
    expect(maySeeJournal({ workspaceId: "wsp_1", userId: "usr_2", role: "member" }, { ...key, userId: null })).toBe(
      false,
    );
  });

  test("a member is refused another's key, and nobody finds one of another workspace", async () => {
    const world = await bootExt();
    const { opened, owner, maxId, maxKeyId } = world;
    const { core } = opened;
    const { store } = core;
    const { id } = newKey(world);
    const [alice, max] = [
      callerOf(world, { userId: owner.userId, role: "owner", email: ALICE }),
      callerOf(world, { userId: maxId, role: "member", email: MAX }),
    ];
    const other = store.transact((tx) => workspaceAdmin.addWorkspace(core, tx, "Other").id);
    const find = (keyId: string, by?: Caller) => codeOf(() => journal.getJournalSubject(store.db, keyId, by));
    expect([find(id, alice), find(maxKeyId, alice), find(maxKeyId, max), find(id)]).toEqual(["ok", "ok", "ok", "ok"]);
    expect(find(id, max)).toBe("forbidden");
    expect(find(id, { ...alice, workspaceId: other })).toBe("not_found");
    expect([find("key_unknown"), find("key_unknown", alice)]).toEqual(["not_found", "not_found"]);
  });
});

describe("the list", () => {
  let world: ExtWorld;
  let key: ReturnType<typeof newKey>;
  beforeAll(async () => {
    world = await bootExt();
    key = newKey(world);
    const { threadId } = await world.receive(ALICE, "News");
    await key.api.get(`/threads/${threadId}`);
    await world.advance(60_000);
    for (let i = 0; i < 5; i++) await key.api.patch(`/threads/${threadId}`, { starred: i % 2 === 0 });
    await key.api.post("/send", { from: ALICE, to: MAX, text: "Hi" });
  });
  const subject = () => journal.getJournalSubject(world.core.store.db, key.id);
  const shown = ({ kind, operation }: JournalEntry) => `${kind} ${operation}`;

  test("newest first, all kinds or some", () => {
    const { core } = world.opened;
    const all = journal.listEntries(core, subject(), { limit: 100 });
    expect(all.next).toBeUndefined();
    expect(all.entries.map(shown)).toEqual([
      "sent sendEmail",
      ...Array.from({ length: 5 }, () => "changed updateThread"),
      "read getThread",
    ]);
    const only = (kind: JournalEntry["kind"]) =>
      journal.listEntries(core, subject(), { kinds: [kind], limit: 100 }).entries.map(shown);
    expect([only("sent"), only("read"), only("refused")]).toEqual([["sent sendEmail"], ["read getThread"], []]);
  });

  test("in pages", () => {
    const { core } = world.opened;
    const seqs: number[] = [];
    for (let behind: { at: number; seq: number } | undefined; ; ) {
      const { entries, next } = journal.listEntries(core, subject(), { behind, limit: 3 });
      seqs.push(...entries.map(({ seq }) => seq));
      if (!next) break;
      behind = next;
    }
    expect(seqs).toEqual(journal.listEntries(core, subject(), { limit: 100 }).entries.map(({ seq }) => seq));
  });

  test("since a time", () => {
    const since = world.runtime.now();
    expect(journal.listEntries(world.opened.core, subject(), { since, limit: 100 }).entries).toHaveLength(6);
    expect(journal.listEntries(world.opened.core, subject(), { since: since + 1, limit: 100 }).entries).toEqual([]);
  });

  test("a look for what is rare is short, and goes on in the next page", () => {
    const { db } = world.core.store;
    const [sample] = db.select().from(journalEntries).where(eq(journalEntries.operation, "updateThread")).all();
    if (!sample) throw new Error("there is no entry");
    const rare = { ...sample, keyId: "key_busy" };
    world.core.store.transact((tx) => {
      for (let i = 0; i < 6_000; i++) {
        const { seq: _, ...row } = { ...rare, at: i, outcome: i === 10 ? "forbidden" : "ok" };
        tx.insert(journalEntries).values(row).run();
      }
    });
    const wanted = { workspaceId: sample.workspaceId, keyId: "key_busy", since: 0 };
    const first = listJournal(db, wanted, { kinds: ["refused"], limit: 10 });
    expect(first).toMatchObject({ entries: [], next: { at: 1_000 } });
    const second = listJournal(db, wanted, { kinds: ["refused"], limit: 10, behind: first.next });
    expect(second.entries.map(({ at }) => at)).toEqual([10]);
    expect(second.next).toBeUndefined();
  });
});

describe("undo", () => {
  test("an agent trashes 300 conversations and marks others; a person pauses it and takes all of it back exactly", async () => {
    const world = await bootExt();
    const { core, opened, runtime, owner } = world;
    const agent = newKey(world);
    const ids: string[] = [];
    for (let i = 0; i < 320; i++) {
      const source = letter({ subject: `Letter ${i}`, from: `sender-${i % 40}@remote.example` });
      const message = await prepareMessage(new TextEncoder().encode(source), core.store.blobs);
      const filing = { mailboxId: owner.mailboxId, receivedOn: ALICE, message, now: runtime.now() };
      ids.push(core.store.transact((tx) => fileMessage(opened.core, tx, filing)).threadId);
    }
    await world.api.patch(`${EXT}/threads`, { ids: ids.slice(0, 90), folder: "archive", addLabels: ["Kept", "News"] });
    await world.api.patch(`${EXT}/threads`, { ids: ids.slice(50, 120), starred: true, read: true });
    const stateOf = () =>
      core.store.db.$client
        .query<{ id: string }, []>(
          `SELECT id, folder, unread, starred, snoozed_until,
             (SELECT group_concat(label_key || label || position) FROM thread_labels WHERE thread_seq = threads.seq) AS labels,
             (SELECT group_concat(folder || read) FROM messages WHERE thread_seq = threads.seq) AS messages
           FROM threads ORDER BY seq`,
        )
        .all();
    const before = stateOf();
    await world.advance(HOUR_MS);
    const since = runtime.now();
    for (let from = 0; from < 300; from += 100) {
      const trashed = await agent.api.patch(`${EXT}/threads`, { ids: ids.slice(from, from + 100), folder: "trash" });
      expect(trashed.status).toBe(200);
    }
    await agent.api.patch(`${EXT}/threads`, { ids: ids.slice(280), read: true, starred: true, labels: ["Seen"] });
    await agent.api.patch(`${EXT}/threads`, { ids: ids.slice(10, 20), folder: "spam" });
    const sent = await agent.api.post<{ emailId: string; threadId: string }>("/send", {
      from: ALICE,
      to: MAX,
      text: "Hi",
    });
    await world.advance(60_000);

    expect((await world.api.patch(`/api/admin/v1/keys/${agent.id}`, { paused: true })).status).toBe(200);
    expect((await agent.api.patch(`/threads/${ids[0]}`, { folder: "spam" })).status).toBe(403);
    const alice = callerOf(world, { userId: owner.userId, role: "owner", email: ALICE });
    const subject = journal.getJournalSubject(core.store.db, agent.id, alice);
    const undo = (dryRun: boolean) =>
      journal.takeBackKeyChanges(opened.core, subject, since, { person: () => alice, face: "app", dryRun });
    const wouldBe = await undo(true);
    expect(await undo(false)).toEqual(wouldBe);
    expect(wouldBe).toMatchObject({ threads: 320, left: [], leftChanges: 0, reachesBack: true });
    expect(wouldBe.sent).toEqual({
      messages: 1,
      recipients: 1,
      latest: [{ at: since, seq: expect.any(Number), ids: [sent.body.emailId, sent.body.threadId], recipients: 1 }],
    });
    const after = stateOf().filter((row) => before.some(({ id }) => id === row.id));
    expect(after).toEqual(before);
    expect(await undo(false)).toMatchObject({ threads: 0, changes: 0, left: [] });
  });

  test("says when the journal does not reach back, and finds nothing after a time to come", async () => {
    const world = await bootExt();
    const { core, opened, runtime } = world;
    const { id } = newKey(world);
    const subject = journal.getJournalSubject(core.store.db, id);
    const undo = (since: number) =>
      journal.takeBackKeyChanges(opened.core, subject, since, { face: "cli", dryRun: true });
    expect((await undo(runtime.now() - 90 * DAY_MS)).reachesBack).toBe(true);
    expect((await undo(runtime.now() - 90 * DAY_MS - 1)).reachesBack).toBe(false);
    expect(await undo(runtime.now() + DAY_MS)).toMatchObject({ reachesBack: true, threads: 0, changes: 0, left: [] });
  });

  test("ends when the person who undoes loses their role, and leaves what is done whole", async () => {
    const world = await bootExt();
    const { core, opened, owner } = world;
    const agent = newKey(world);
    const { threadId } = await world.receive(ALICE, "News");
    await agent.api.patch(`/threads/${threadId}`, { folder: "trash" });
    const subject = journal.getJournalSubject(core.store.db, agent.id);
    const person = () => {
      throw Object.assign(new Error("no longer"), { code: "forbidden" });
    };
    expect(journal.takeBackKeyChanges(opened.core, subject, 0, { person, face: "app", dryRun: false })).rejects.toThrow(
      "no longer",
    );
    const { body } = await world.api.get<{ thread: { folder: string } }>(`/threads/${threadId}`);
    expect([body.thread.folder, owner.userId]).toEqual(["trash", owner.userId]);
  });
});

describe("with time and people", () => {
  const rowsOf = ({ core }: ExtWorld, keyId: string) => ({
    entries: core.store.db.select().from(journalEntries).where(eq(journalEntries.keyId, keyId)).all().length,
    changes: core.store.db.select().from(keyChanges).where(eq(keyChanges.keyId, keyId)).all().length,
  });

  test("reads are kept for 14 days and the rest for 90, or as the settings say", async () => {
    const world = await bootExt();
    const { id } = newKey(world);
    const { db } = world.core.store;
    const { threadId } = await world.receive(ALICE, "News");
    await world.asMax.get(`/threads/${threadId}`);
    await world.api.patch(`/threads/${threadId}`, { starred: true });
    await world.advance(60_000);
    const kinds = () =>
      db
        .select({ reads: journalEntries.reads })
        .from(journalEntries)
        .all()
        .map(({ reads }) => reads !== null);
    const days = async (count: number) => {
      for (let i = 0; i < count; i++) await world.advance(DAY_MS);
    };
    expect(kinds()).toContain(true);
    await days(13);
    expect(kinds()).toContain(true);
    await days(2);
    expect(new Set(kinds())).toEqual(new Set([false]));
    expect(db.select().from(keyChanges).all()).toHaveLength(1);
    world.core.store.transact((tx) => world.core.options.set(tx, "retention.journalDays", "20"));
    await days(6);
    expect([kinds(), db.select().from(keyChanges).all()]).toEqual([[], []]);
    expect(id).toMatch(/^key_/);
  });

  test("a key that goes with its person keeps its journal; an erasure deletes it", async () => {
    for (const erases of [false, true]) {
      const world = await bootExt();
      const { opened, maxId, maxKeyId, owner } = world;
      const { core } = opened;
      const { store } = core;
      const aliceKey = newKey(world);
      const { threadId } = await world.receive(MAX, "News");
      await world.asMax.patch(`/threads/${threadId}`, { folder: "archive" });
      await aliceKey.api.patch(`/threads/${threadId}`, { starred: true });
      await world.asMax.get(`/threads/${threadId}`);
      if (erases) await passing(world, erasure.erasePerson(core, maxId, { compact: false }));
      else store.transact((tx) => people.removeUser(tx, maxId));
      await world.advance(60_000);
      const kept = rowsOf(world, maxKeyId);
      expect([kept, rowsOf(world, aliceKey.id)]).toEqual(
        erases
          ? [
              { entries: 0, changes: 0 },
              { entries: 1, changes: 0 },
            ]
          : [
              { entries: 1, changes: 2 },
              { entries: 1, changes: 1 },
            ],
      );
      if (erases) continue;
      const alice = callerOf(world, { userId: owner.userId, role: "owner", email: ALICE });
      const subject = journal.getJournalSubject(store.db, maxKeyId, alice);
      expect(subject).toEqual({ workspaceId: owner.workspaceId, keyId: maxKeyId, userId: maxId });
      const undone = await journal.takeBackKeyChanges(core, subject, 0, {
        person: () => alice,
        face: "app",
        dryRun: false,
      });
      expect(undone).toMatchObject({ changes: 2, left: [] });
    }
  });

  test("a mailbox that is removed takes what would undo changes in it along", async () => {
    const world = await bootExt();
    const { core, opened, maxMailboxId } = world;
    const { threadId } = await world.receive(MAX, "News");
    await world.api.patch(`/threads/${threadId}`, { starred: true });
    const left = () =>
      core.store.db
        .select()
        .from(keyChanges)
        .where(and(eq(keyChanges.mailboxId, maxMailboxId)))
        .all();
    expect(left()).toHaveLength(1);
    await passing(world, removals.removeMailbox(opened.core, maxMailboxId));
    expect(left()).toEqual([]);
  });
});
