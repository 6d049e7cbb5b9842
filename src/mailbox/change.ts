/**
 * One conversation changed for somebody: moved, snoozed, starred, labelled, marked read; and that taken back, to the very
 * state before, with what its move taught the mailbox (contract: Folders, Spam).
 *
 * Invariant: what is refused is refused before anything is written, so that others of the same transaction can go on.
 */
import { isDeepStrictEqual } from "node:util";
import { and, desc, eq, inArray, isNotNull, lte, max, sql } from "drizzle-orm";
import { type Caller, notFound, type Reach, reachTo, requireAccess } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import { prepared } from "../store/prepared.ts";
import { type Folder, messages, threads } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { moveMessages } from "./folders.ts";
import { type Taught, teachBack, teachConversation } from "./junk/training.ts";
import { labelsOf, patchedLabels, writeLabels } from "./labels.ts";
import { markRead, markUnread } from "./read-state.ts";
import { forgive, type Relearned, type Sender, senderOf, trainAsSpam, unlearnSender } from "./senders.ts";
import { requireSnoozable, snoozeThread } from "./snooze.ts";
import { isDraft, type ThreadRow } from "./threading.ts";
import type { ThreadPatch } from "./views.ts";

/** What is to be changed; `read` is said as `unread`. */
export interface ThreadChange extends Omit<ThreadPatch, "read"> {
  /** Epoch ms. Not together with `folder`. */
  snoozedUntil?: number | undefined;
}

/** Everything but the read state (spec: PATCH /threads/{id}). */
const NEEDS_MANAGE = ["starred", "folder", "labels", "addLabels", "removeLabels", "snoozedUntil"] as const;

/** What can be changed of a conversation, as far as a change touched it. */
interface State {
  folder?: Folder;
  snoozedUntil?: number | null;
  starred?: boolean;
  labels?: readonly string[];
  unread?: boolean;
}

/** A change that was made, with what takes it back. */
export interface Changed {
  threadId: string;
  before: State;
  after: State;
  /** The messages that were unread, where that was changed, among those there were. */
  unreadSeqs: readonly number[];
  newestSeq: number;
  relearned: readonly Relearned[];
  taught: readonly Taught[];
}

const threadById = prepared((db) =>
  db
    .select()
    .from(threads)
    .where(eq(threads.id, sql.placeholder("id")))
    .prepare(),
);

/** @throws AppError not_found, the same when it does not exist and when it is not reached */
export function reachedThread(db: Db, caller: Caller, id: string): { thread: ThreadRow; reach: Reach } {
  const thread = threadById(db).get({ id });
  const reach = thread && reachTo(db, caller, thread.mailboxId);
  if (!thread || !reach) throw notFound("thread");
  return { thread, reach };
}

/** `now`: epoch ms. @throws AppError not_found, forbidden, conflict, unprocessable; then nothing has changed */
export function changeThread(tx: Tx, caller: Caller, id: string, change: ThreadChange, now: number): Changed {
  const { folder, snoozedUntil, starred, unread } = change;
  const { thread, reach } = reachedThread(tx, caller, id);
  if (NEEDS_MANAGE.some((name) => change[name] !== undefined)) requireAccess(reach, "manage");
  if (folder !== undefined && folder !== "trash" && isDraft(tx, thread.seq)) {
    throw new AppError("conflict", "A draft can only be moved to trash");
  }
  if (snoozedUntil !== undefined) requireSnoozable(thread);
  const labels = labelsOf(tx, [thread.seq]).get(thread.seq) ?? [];
  const patched = patchedLabels(labels, change);

  const { seq } = thread;
  const made = { relearned: [] as Relearned[], taught: [] as Taught[], unreadSeqs: [] as number[], newestSeq: 0 };
  const touched: (keyof State)[] = [];
  if (folder !== undefined || snoozedUntil !== undefined) touched.push("folder", "snoozedUntil");
  if (folder !== undefined) Object.assign(made, move(tx, thread, folder, now));
  if (snoozedUntil !== undefined) snoozeThread(tx, thread, snoozedUntil);
  if (starred !== undefined) {
    touched.push("starred");
    tx.update(threads).set({ starred }).where(eq(threads.seq, seq)).run();
  }
  if (!isDeepStrictEqual(patched, labels)) {
    touched.push("labels");
    writeLabels(tx, seq, patched);
  }
  if (unread !== undefined && unread !== thread.unread) {
    touched.push("unread");
    Object.assign(made, unreadIn(tx, seq));
    if (unread) markUnread(tx, seq);
    else markRead(tx, seq);
  }
  return {
    threadId: id,
    before: pick({ ...thread, labels }, touched),
    after: pick(stateOf(tx, caller, id), touched),
    ...made,
  };
}

/**
 * Takes a change back. @throws AppError conflict when what it changed was changed again, and as changeThread; then
 * nothing has changed
 */
export function takeBack(tx: Tx, caller: Caller, changed: Changed): void {
  const { thread, reach } = reachedThread(tx, caller, changed.threadId);
  const { before, after } = changed;
  const touched = Object.keys(after) as (keyof State)[];
  if (touched.some((name) => name !== "unread")) requireAccess(reach, "manage");
  if (!isDeepStrictEqual(pick(stateOf(tx, caller, thread.id), touched), after)) {
    throw new AppError("conflict", "The conversation has changed since");
  }
  const { seq, mailboxId } = thread;
  const { labels, unread, ...columns } = before;
  if (Object.keys(columns).length > 0) tx.update(threads).set(columns).where(eq(threads.seq, seq)).run();
  if (before.folder !== undefined && before.folder !== thread.folder) moveMessages(tx, seq, before.folder);
  if (labels !== undefined) writeLabels(tx, seq, labels);
  if (unread !== undefined) setUnread(tx, seq, changed);
  for (const one of changed.relearned.toReversed()) unlearnSender(tx, mailboxId, one);
  teachBack(tx, mailboxId, changed.taught);
}

const stateOf = (tx: Tx, caller: Caller, id: string): Required<State> => {
  const { thread } = reachedThread(tx, caller, id);
  return { ...thread, labels: labelsOf(tx, [thread.seq]).get(thread.seq) ?? [] };
};

const pick = (state: Required<State>, names: readonly (keyof State)[]): State =>
  Object.fromEntries(names.map((name) => [name, state[name]]));

function move(tx: Tx, thread: ThreadRow, folder: Folder, now: number): { relearned: Relearned[]; taught: Taught[] } {
  const { seq, mailboxId } = thread;
  const relearned: Relearned[] = [];
  let taught: Taught[] = [];
  if (folder === "spam") {
    const [sender] = inboundSenders(tx, thread);
    if (sender !== undefined) relearned.push(...trainAsSpam(tx, mailboxId, sender, now));
    taught = teachConversation(tx, thread, "spam");
  } else if (folder === "inbox" && thread.folder === "spam") {
    for (const sender of inboundSenders(tx, thread)) relearned.push(...forgive(tx, mailboxId, sender, now));
    taught = teachConversation(tx, thread, "ham");
  } else if (folder === "archive" && thread.folder !== "archive") {
    // Out of spam it is less than forgiven: what was learned is taken back, and nothing else learned.
    taught = teachConversation(tx, thread, thread.folder === "spam" ? undefined : "ham");
  }
  tx.update(threads).set({ folder, snoozedUntil: null }).where(eq(threads.seq, seq)).run();
  if (folder !== thread.folder) moveMessages(tx, seq, folder);
  return { relearned, taught };
}

/** Who wrote to us in it, the latest first; without our own notices. */
function inboundSenders(tx: Tx, thread: ThreadRow): Sender[] {
  const rows = tx
    .select({ from: messages.from, auth: messages.auth })
    .from(messages)
    .where(and(eq(messages.threadSeq, thread.seq), eq(messages.kind, "received"), isNotNull(messages.receivedOn)))
    .orderBy(desc(messages.date), desc(messages.seq))
    .all();
  const senders = new Map<string, Sender>();
  for (const { from, auth } of rows) {
    const sender = senderOf(from, auth);
    const key = `${sender.address} ${sender.spoofed}`;
    if (!senders.has(key)) senders.set(key, sender);
  }
  return [...senders.values()];
}

function unreadIn(tx: Tx, threadSeq: number): { unreadSeqs: number[]; newestSeq: number } {
  const ofThread = eq(messages.threadSeq, threadSeq);
  const unread = tx
    .select({ seq: messages.seq })
    .from(messages)
    .where(and(ofThread, eq(messages.read, false)))
    .all();
  const newest = tx
    .select({ seq: max(messages.seq) })
    .from(messages)
    .where(ofThread)
    .get();
  return { unreadSeqs: unread.map(({ seq }) => seq), newestSeq: newest?.seq ?? 0 };
}

/** Of the messages that there were; what came since stays as it is. */
function setUnread(tx: Tx, threadSeq: number, { unreadSeqs, newestSeq }: Changed): void {
  const wasUnread = inArray(messages.seq, sql`(select value from json_each(${JSON.stringify(unreadSeqs)}))`);
  tx.update(messages)
    .set({ read: sql`not (${wasUnread})` })
    .where(and(eq(messages.threadSeq, threadSeq), lte(messages.seq, newestSeq)))
    .run();
  const unread = sql<boolean>`exists (select 1 from messages where thread_seq = ${threadSeq} and read = 0)`;
  tx.update(threads).set({ unread }).where(eq(threads.seq, threadSeq)).run();
}
