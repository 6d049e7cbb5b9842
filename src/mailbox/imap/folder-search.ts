/**
 * Queries for IMAP's SEARCH in a folder. Flags, ids and words of the index are answered without a look at each message; for the
 * other criteria, this file reads what is compared. Messages are named by messages.seq. The caller checks access.
 */
import { letOthersRun } from "../../base/pause.ts";
import { unpackText } from "../../message/reading.ts";
import { toThreadSeq } from "../../search/document-number.ts";
import { LONGEST_SURE } from "../../search/fold.ts";
import { FOLDERS, type Folder, MESSAGES_PER_THREAD } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { threadsLabelledIn } from "../state/labels.ts";
import type { MailReader } from "../state/readers.ts";

/** Times its packed length that a text usually has. */
const PACKED_TO = 4;
/** Conversations whose messages are read at once: some 5 ms. */
const PORTION = 2_000;

/** A JSON array: one string takes a third of the time of as many rows. */
interface Seqs {
  seqs: string;
}

const OF_THREADS = `FROM json_each(?) AS given CROSS JOIN messages
  ON seq BETWEEN given.value * ${MESSAGES_PER_THREAD} AND given.value * ${MESSAGES_PER_THREAD} + ${MESSAGES_PER_THREAD - 1}`;

const statements = {
  unreadThreads: statement<Seqs, [mailboxId: string]>(
    "SELECT json_group_array(seq) AS seqs FROM threads INDEXED BY threads_unread WHERE mailbox_id = ? AND unread = 1",
  ),
  unread: statement<Seqs, [threads: string]>(`SELECT json_group_array(seq) AS seqs ${OF_THREADS} WHERE read = 0`),
  starredThreads: statement<Seqs, [mailboxId: string]>(
    "SELECT json_group_array(seq) AS seqs FROM threads INDEXED BY threads_starred WHERE mailbox_id = ? AND starred = 1",
  ),
  flagged: statement<Seqs, [threads: string]>(`SELECT json_group_array(seq) AS seqs ${OF_THREADS} WHERE flagged = 1`),
  message: statement<{ seq: number }, [id: string]>("SELECT seq FROM messages WHERE id = ?"),
  thread: statement<{ seq: number }, [id: string]>("SELECT seq FROM threads WHERE id = ?"),
  // A byte of a message is three of its text at most: a letter of a character set of one byte, in UTF-8.
  long: statement<Seqs, [mailboxId: string, folders: string, bytes: number]>(
    `SELECT json_group_array(seq) AS seqs FROM json_each(?2) AS given
       CROSS JOIN messages INDEXED BY messages_by_folder ON mailbox_id = ?1 AND folder = given.value
       CROSS JOIN message_bodies ON message_seq = seq
     WHERE size > ?3 / 3 AND (octet_length(text) > ?3 OR octet_length(seen_text) > ?3 / ${PACKED_TO})`,
  ),
  dates: statement<DatesRow, [seqs: string]>(
    `SELECT seq, kind = 'draft' AS isDraft, filed_at AS filedAt, date FROM json_each(?) AS given CROSS JOIN messages ON seq = given.value`,
  ),
  envelopes: statement<EnvelopeRow, [seqs: string, userId: string]>(
    `SELECT seq, subject, "from", "to", cc, iif(kind <> 'received' AND sent_by = ?2, bcc, '[]') AS bcc
     FROM json_each(?1) AS given CROSS JOIN messages ON seq = given.value`,
  ),
  headers: statement<HeadersRow, [seqs: string]>(
    "SELECT message_seq AS seq, headers FROM json_each(?) AS given CROSS JOIN message_bodies ON message_seq = given.value",
  ),
  bodies: statement<BodyRow & { seen: Uint8Array | null }, [seqs: string]>(
    `SELECT message_seq AS seq, text, seen_text AS seen
     FROM json_each(?) AS given CROSS JOIN message_bodies ON message_seq = given.value`,
  ),
};

export interface DatesRow {
  seq: number;
  isDraft: number;
  filedAt: number;
  date: number;
}

/** Lists of addresses as JSON; of Bcc, what its author sees. */
export interface EnvelopeRow {
  seq: number;
  subject: string;
  from: string;
  to: string;
  cc: string;
  bcc: string;
}

export interface HeadersRow {
  seq: number;
  /** Header fields, [name, value] in order, as JSON. */
  headers: string;
}

export interface BodyRow {
  seq: number;
  text: string;
}

const numbersIn = (row: Seqs | null): number[] => JSON.parse(row?.seqs ?? "[]");

async function ofThreads(db: Db, threads: readonly number[], select: "unread" | "flagged"): Promise<Set<number>> {
  const found = new Set<number>();
  for (let next = 0; next < threads.length; next += PORTION) {
    const portion = JSON.stringify(threads.slice(next, next + PORTION));
    for (const seq of numbersIn(statements[select](db).get(portion))) found.add(seq);
    await letOthersRun();
  }
  return found;
}

/** Unread messages in any folder of a mailbox. */
export const findUnread = ({ db }: MailReader, mailboxId: string): Promise<Set<number>> =>
  ofThreads(db, numbersIn(statements.unreadThreads(db).get(mailboxId)), "unread");

/** Flagged messages in any folder of a mailbox. */
export const findFlagged = ({ db }: MailReader, mailboxId: string): Promise<Set<number>> =>
  ofThreads(db, numbersIn(statements.starredThreads(db).get(mailboxId)), "flagged");

/** Conversations (threads.seq) that have a label in the mailbox. */
export async function findLabelledThreads({ db }: MailReader, mailboxId: string, label: string): Promise<Set<number>> {
  const threads = new Set<number>();
  for await (const some of threadsLabelledIn(db, mailboxId, label)) for (const one of some) threads.add(one);
  return threads;
}

/** The message with an id, in any mailbox. */
export const findMessageNumber = ({ db }: MailReader, id: string): number | undefined =>
  statements.message(db).get(id)?.seq;

/** A test for messages of the conversation with an id, in any mailbox. */
export function createThreadTest({ db }: MailReader, id: string): (seq: number) => boolean {
  const thread = statements.thread(db).get(id)?.seq;
  return (seq) => toThreadSeq(seq) === thread;
}

/** Messages of a folder whose texts are longer than the index surely knows them; for a label's mailbox also others. */
export function findLongMessages({ db }: MailReader, mailboxId: string, folder: Folder | undefined): number[] {
  const folders = JSON.stringify(folder === undefined ? FOLDERS : [folder]);
  return numbersIn(statements.long(db).get(mailboxId, folders, LONGEST_SURE));
}

export const readMessageDates = ({ db }: MailReader, seqs: readonly number[]): DatesRow[] =>
  statements.dates(db).all(JSON.stringify(seqs));

// The following return the first of the messages, in their order: so many characters together, or one.

/** Envelopes as that person sees them. */
export const readMessageEnvelopes = (
  { db }: MailReader,
  seqs: readonly number[],
  userId: string,
  characters: number,
): EnvelopeRow[] =>
  takeWithinLength(
    statements.envelopes(db).iterate(JSON.stringify(seqs), userId),
    characters,
    ({ subject, from, to, cc, bcc }) => subject.length + from.length + to.length + cc.length + bcc.length,
  );

export const readMessageHeaders = ({ db }: MailReader, seqs: readonly number[], characters: number): HeadersRow[] =>
  takeWithinLength(statements.headers(db).iterate(JSON.stringify(seqs)), characters, ({ headers }) => headers.length);

export const readMessageBodies = ({ db }: MailReader, seqs: readonly number[], characters: number): BodyRow[] =>
  takeWithinLength(
    wholeTexts(statements.bodies(db).iterate(JSON.stringify(seqs))),
    characters,
    ({ text }) => text.length,
  );

/** Adds to each text the visible text of the HTML on a line below, where that differs. */
function* wholeTexts(rows: Iterable<BodyRow & { seen: Uint8Array | null }>): Generator<BodyRow> {
  for (const { seq, text, seen } of rows) yield { seq, text: seen ? `${text}\n${unpackText(seen)}` : text };
}

function takeWithinLength<T>(rows: Iterable<T>, characters: number, rowLength: (row: T) => number): T[] {
  const first: T[] = [];
  let left = characters;
  for (const row of rows) {
    first.push(row);
    left -= rowLength(row);
    if (left <= 0) break;
  }
  return first;
}
