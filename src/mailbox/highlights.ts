/**
 * Where the conversations of a page were found: which of their messages satisfy the query, and snippets of them. Made of
 * what is stored, without Bcc, of conversations whose reader is known to reach them.
 *
 * Invariant: what a page of the largest and oddest mail costs is bounded, and other requests are answered meanwhile; of
 * what lies beyond the bounds the highlights are left out.
 */

import { threadOf } from "../search/document-number.ts";
import { createHits } from "../search/fts5/hits.ts";
import { createHighlighter, type Highlight, type SearchedMessage } from "../search/highlight.ts";
import type { Query } from "../search/query.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store } from "../store/store.ts";

export { HIGHLIGHT_FIELDS, LONGEST_SNIPPET } from "../search/highlight.ts";

/** rules: Search additions; operations/schemas.ts describes it. */
export interface HighlightView extends Highlight {
  /** Id of the message. */
  emailId: string;
}

/** Messages of a conversation that are looked at, the latest first. */
const MOST_MESSAGES = 3;
/** UTF-16 units that are folded, of a page and of one message, and bytes of bodies that are read for a page. */
const MOST_WORK = 256 * 1024;
const MOST_WORK_OF_A_MESSAGE = 32 * 1024;
const MOST_BYTES = 8 * 1024 * 1024;
/** Other requests have their turn after as much of it. */
const WORK_OF_A_TURN = 16 * 1024;
const BYTES_OF_A_TURN = 512 * 1024;
const MESSAGES_OF_A_TURN = 30;

type Row = SearchedMessage & { seq: number; emailId: string };

// Lists of numbers are JSON arrays. Answered as one string, for a row of its own costs more than what is in it; but a text
// costs more to quote.
const statements = prepared(({ $client: sqlite }) => ({
  messages: sqlite.prepare<{ rows: string }, [seqs: string]>(
    `SELECT json_group_array(json_object(
       'seq', seq, 'emailId', messages.id, 'subject', subject,
       'from', json("from"), 'to', json("to"), 'cc', json(cc),
       'filenames', json((SELECT json_group_array(filename ORDER BY position) FROM attachments WHERE message_seq = seq)))
     ) AS rows
     FROM messages WHERE seq IN (SELECT value FROM json_each(?))`,
  ),
  texts: sqlite.prepare<{ seq: number; text: string }, [seqs: string]>(
    "SELECT message_seq AS seq, text FROM message_bodies WHERE message_seq IN (SELECT value FROM json_each(?))",
  ),
  sizes: sqlite.prepare<{ sizes: string }, [seqs: string]>(
    `SELECT json_group_object(message_seq, octet_length(text)) AS sizes
     FROM message_bodies WHERE message_seq IN (SELECT value FROM json_each(?))`,
  ),
  seqs: sqlite.prepare<{ seq: number }, [number]>("SELECT seq FROM messages WHERE thread_seq = ?"),
}));

/** A conversation that was found. */
interface Found {
  /** threads.seq */
  seq: number;
  messageCount: number;
}

const turnOfOthers = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export function createHighlights({ db }: Pick<Store, "db">) {
  const hitsOf = createHits({ db });

  /** By threads.seq; of each conversation none or some. `words`: what an engine found in place of the query's. */
  return async (
    query: Query,
    threads: readonly Found[],
    words?: readonly string[],
  ): Promise<Map<number, HighlightView[]>> => {
    const result = new Map<number, HighlightView[]>(threads.map(({ seq }) => [seq, []]));
    const highlight = createHighlighter(query, words);
    if (!highlight) return result;
    const several = threads.filter(({ messageCount }) => messageCount > 1).map(({ seq }) => seq);
    const hits = hitsOf(query, words)(several, MOST_MESSAGES);
    for (const { seq, messageCount } of threads) {
      // The only one it is.
      if (messageCount === 1)
        hits.set(
          seq,
          statements(db)
            .seqs.all(seq)
            .map((row) => row.seq),
        );
    }
    // One of each conversation, then the second of each: if there is not enough for all, it is for some of every one.
    const seqs = Array.from({ length: MOST_MESSAGES }, (_, place) => place).flatMap((place) =>
      threads.flatMap(({ seq }) => hits.get(seq)?.slice(place, place + 1) ?? []),
    );
    let workLeft = MOST_WORK;
    for (const { messages, bodies } of turnsOf(db, seqs)) {
      let workOfTurn = WORK_OF_A_TURN;
      for (const { seq, emailId, ...message } of readMessages(db, messages, bodies)) {
        const given = Math.min(workLeft, MOST_WORK_OF_A_MESSAGE);
        const work = { left: given };
        const highlights = highlight(message, work);
        result.get(threadOf(seq))?.push(...highlights.map((one) => ({ emailId, ...one })));
        workLeft -= given - work.left;
        workOfTurn -= given - work.left;
        if (workLeft <= 0) return result;
        if (workOfTurn > 0) continue;
        await turnOfOthers();
        workOfTurn = WORK_OF_A_TURN;
      }
      await turnOfOthers();
    }
    return result;
  };
}

/** Messages in portions that can be read at once, and those whose bodies are to be read, as far as MOST_BYTES go. */
function* turnsOf(db: Db, seqs: readonly number[]): Generator<{ messages: number[]; bodies: number[] }> {
  const sizes: Record<string, number> = JSON.parse(statements(db).sizes.get(JSON.stringify(seqs))?.sizes ?? "{}");
  let bytesLeft = MOST_BYTES;
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

/** In the order of `seqs`; one that was deleted meanwhile is left out. */
function readMessages(db: Db, seqs: readonly number[], bodies: readonly number[]): Row[] {
  const { messages, texts } = statements(db);
  const { rows = "[]" } = messages.get(JSON.stringify(seqs)) ?? {};
  const textOf = new Map(texts.all(JSON.stringify(bodies)).map(({ seq, text }) => [seq, text]));
  const bySeq = new Map((JSON.parse(rows) as Omit<Row, "text">[]).map((row) => [row.seq, row]));
  return seqs.flatMap((seq) => {
    const row = bySeq.get(seq);
    return row ? [{ ...row, text: textOf.get(seq) ?? "" }] : [];
  });
}
