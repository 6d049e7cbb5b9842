/**
 * Finds where the conversations of a page match: which of their messages satisfy the query, with snippets. Reads stored
 * mail, never Bcc, and only conversations that the caller reaches.
 *
 * Invariant: a page of the largest and oddest mail has a bounded cost, and other requests run in between; conversations
 * beyond the bounds get no highlights.
 */
import { letOthersRun } from "../../base/pause.ts";
import { unpackText } from "../../message/reading.ts";
import { toThreadSeq } from "../../search/document-number.ts";
import { createHitFinder } from "../../search/fts5/hits.ts";
import { createHighlighter, type SearchedMessage } from "../../search/highlight.ts";
import type { Query } from "../../search/query.ts";
import { perDatabase, statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import type { HighlightView } from "../state/views.ts";

/** Latest messages of a conversation that are examined. */
const MOST_MESSAGES = 3;
/** Limits on UTF-16 units folded for a page and for one message, and on bytes of bodies read for a page. */
const MOST_WORK = 256 * 1024;
const MOST_WORK_OF_A_MESSAGE = 32 * 1024;
const MOST_BYTES = 8 * 1024 * 1024;
/** Limits on the work before other requests get a turn. */
const WORK_OF_A_TURN = 16 * 1024;
const BYTES_OF_A_TURN = 512 * 1024;
const MESSAGES_OF_A_TURN = 30;

/** `date`: epoch ms; `size`: bytes. */
export type Row = SearchedMessage & { seq: number; emailId: string; date: number; size: number; hasAttachments: 0 | 1 };

/** Masks what highlights must not show. */
export type MaskRows = (rows: readonly Row[]) => Promise<Row[]>;

// Lists of numbers are JSON arrays. Results come as one string, because a row costs more than its content; texts come
// as rows, because quoting them costs more.
const statements = {
  messages: statement<{ rows: string }, [seqs: string]>(
    `SELECT json_group_array(json_object(
       'seq', seq, 'emailId', messages.id, 'date', date, 'size', size, 'hasAttachments', has_attachments,
       'subject', subject,
       'from', json("from"), 'to', json("to"), 'cc', json(cc),
       'filenames', json((SELECT json_group_array(filename ORDER BY position) FROM attachments WHERE message_seq = seq)))
     ) AS rows
     FROM messages WHERE seq IN (SELECT value FROM json_each(?))`,
  ),
  texts: statement<{ seq: number; text: string; seen: Uint8Array | null }, [seqs: string]>(
    "SELECT message_seq AS seq, text, seen_text AS seen FROM message_bodies WHERE message_seq IN (SELECT value FROM json_each(?))",
  ),
  sizes: statement<{ sizes: string }, [seqs: string]>(
    `SELECT json_group_object(message_seq, octet_length(text) + coalesce(4 * octet_length(seen_text), 0)) AS sizes
     FROM message_bodies WHERE message_seq IN (SELECT value FROM json_each(?))`,
  ),
  onlyMessage: statement<{ seq: number }, [number]>("SELECT seq FROM messages WHERE thread_seq = ?"),
};

/** A conversation that matched. */
interface Found {
  /** threads.seq */
  seq: number;
  messageCount: number;
}

const hits = perDatabase((db) => createHitFinder({ db }));

/**
 * Highlights by threads.seq, possibly none for a conversation. `words`: words that an engine found in place of the
 * query's. `masked`: masks messages before they are looked at, and knows those that match even so, by threads.seq.
 */
export async function findThreadHighlights(
  db: Db,
  query: Query,
  threads: readonly Found[],
  words?: readonly string[],
  masked?: { maskRows: MaskRows; matches: ReadonlyMap<number, readonly number[]> | undefined },
): Promise<Map<number, HighlightView[]>> {
  const result = new Map<number, HighlightView[]>(threads.map(({ seq }) => [seq, []]));
  const highlight = createHighlighter(query, words);
  if (!highlight) return result;
  const found = masked?.matches ?? findMatchingMessages(db, query, threads, words);
  // First one message of each conversation, then the second of each: if the limits are reached, every conversation
  // has had some.
  const seqs = Array.from({ length: MOST_MESSAGES }, (_, index) => index).flatMap((index) =>
    threads.flatMap(({ seq }) => found.get(seq)?.[index] ?? []),
  );
  let workLeft = MOST_WORK;
  for (const { messages, bodies } of splitMessagesIntoBatches(db, seqs)) {
    let workOfTurn = WORK_OF_A_TURN;
    const rows = readMessages(db, messages, bodies);
    for (const { seq, emailId, ...message } of masked ? await masked.maskRows(rows) : rows) {
      const given = Math.min(workLeft, MOST_WORK_OF_A_MESSAGE);
      const work = { left: given };
      const highlights = highlight(message, work);
      result.get(toThreadSeq(seq))?.push(...highlights.map((one) => ({ emailId, ...one })));
      workLeft -= given - work.left;
      workOfTurn -= given - work.left;
      if (workLeft <= 0) return result;
      if (workOfTurn > 0) continue;
      await letOthersRun();
      workOfTurn = WORK_OF_A_TURN;
    }
    await letOthersRun();
  }
  return result;
}

/** The messages of each conversation that match, by threads.seq. */
function findMatchingMessages(
  db: Db,
  query: Query,
  threads: readonly Found[],
  words: readonly string[] | undefined,
): Map<number, number[]> {
  const several = threads.filter(({ messageCount }) => messageCount > 1).map(({ seq }) => seq);
  const found = hits(db)(query, words)(several, MOST_MESSAGES);
  for (const { seq, messageCount } of threads) {
    // The only message must be the match.
    const only = messageCount === 1 ? statements.onlyMessage(db).get(seq) : null;
    if (only) found.set(seq, [only.seq]);
  }
  return found;
}

/** Splits messages into turns, and selects those whose bodies are read within `mostBytes`. */
export function* splitMessagesIntoBatches(
  db: Db,
  seqs: readonly number[],
  mostBytes = MOST_BYTES,
): Generator<{ messages: number[]; bodies: number[] }> {
  const sizes: Record<string, number> = JSON.parse(statements.sizes(db).get(JSON.stringify(seqs))?.sizes ?? "{}");
  let bytesLeft = mostBytes;
  let turn = { messages: [] as number[], bodies: [] as number[], bytes: 0 };
  for (const seq of seqs) {
    const bytes = sizes[seq] ?? 0;
    if (turn.messages.length === MESSAGES_OF_A_TURN || (turn.bytes > 0 && turn.bytes + bytes > BYTES_OF_A_TURN)) {
      yield turn;
      turn = { messages: [], bodies: [], bytes: 0 };
    }
    turn.messages.push(seq);
    if (bytes > bytesLeft) continue;
    turn.bodies.push(seq);
    turn.bytes += bytes;
    bytesLeft -= bytes;
  }
  if (turn.messages.length > 0) yield turn;
}

/** Reads messages, in the order of `seqs`; leaves out a message that was deleted meanwhile. */
export function readMessages(db: Db, seqs: readonly number[], bodies: readonly number[]): Row[] {
  const { rows = "[]" } = statements.messages(db).get(JSON.stringify(seqs)) ?? {};
  const textsOf = new Map(
    statements
      .texts(db)
      .all(JSON.stringify(bodies))
      .map(({ seq, text, seen }) => [seq, { text, ...(seen && { seen: unpackText(seen) }) }]),
  );
  const bySeq = new Map((JSON.parse(rows) as Omit<Row, "text">[]).map((row) => [row.seq, row]));
  return seqs.flatMap((seq) => {
    const row = bySeq.get(seq);
    return row ? [{ ...row, ...(textsOf.get(seq) ?? { text: "" }) }] : [];
  });
}
