/**
 * Where the conversations of a page were found: which of their messages satisfy the query, and snippets of them. Made of
 * what is stored, without Bcc, of conversations whose reader is known to reach them.
 *
 * Invariant: what a page of the largest and oddest mail costs is bounded, and other requests are answered meanwhile; of
 * what lies beyond the bounds the highlights are left out.
 */
import { createHighlighter, type Highlight, type SearchedMessage } from "../search/highlight.ts";
import { createHits } from "../search/hits.ts";
import type { Query } from "../search/query.ts";
import { prepared } from "../store/prepared.ts";
import type { Store } from "../store/store.ts";

export { HIGHLIGHT_FIELDS, LONGEST_SNIPPET } from "../search/highlight.ts";

/** spec: an added field; api/schemas.ts describes it. */
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
const WORK_OF_A_TURN = 8 * 1024;
const BYTES_OF_A_TURN = 512 * 1024;
const MESSAGES_OF_A_TURN = 30;

interface Row {
  emailId: string;
  subject: string;
  from: string;
  to: string;
  cc: string;
  /** Empty for one that has no room. */
  text: string;
  bytes: number;
  filenames: string;
}

const statements = prepared(({ $client: sqlite }) => ({
  message: sqlite.prepare<Row, [number, number]>(
    `SELECT messages.id AS emailId, subject, "from", "to", cc, octet_length(text) AS bytes,
       iif(octet_length(text) <= ?, text, '') AS text,
       (SELECT json_group_array(filename ORDER BY position) FROM attachments WHERE message_seq = seq) AS filenames
     FROM messages JOIN message_bodies ON message_seq = seq WHERE seq = ?`,
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
    const findHits = hitsOf(query, words);
    const hits = threads.map(({ seq, messageCount }) => ({
      threadSeq: seq,
      // The only one it is.
      messages:
        messageCount === 1
          ? statements(db)
              .seqs.all(seq)
              .map((row) => row.seq)
          : findHits(seq, MOST_MESSAGES),
    }));
    let workLeft = MOST_WORK;
    let bytesLeft = MOST_BYTES;
    let turn = { work: workLeft, bytes: bytesLeft, messages: 0 };
    // One of each conversation, then the second of each: if there is not enough for all, it is for some of every one.
    for (let place = 0; place < MOST_MESSAGES; place++) {
      for (const { threadSeq, messages } of hits) {
        const seq = messages[place];
        const row = seq === undefined ? null : statements(db).message.get(bytesLeft, seq);
        if (seq === undefined || !row || workLeft <= 0) continue;
        bytesLeft -= row.text === "" ? 0 : row.bytes;
        const { emailId } = row;
        const given = Math.min(workLeft, MOST_WORK_OF_A_MESSAGE);
        const work = { left: given };
        const highlights = highlight(searched(row), work);
        workLeft -= given - work.left;
        result.get(threadSeq)?.push(...highlights.map((one) => ({ emailId, ...one })));
        turn.messages++;
        if (
          turn.work - workLeft > WORK_OF_A_TURN ||
          turn.bytes - bytesLeft > BYTES_OF_A_TURN ||
          turn.messages > MESSAGES_OF_A_TURN
        ) {
          await turnOfOthers();
          turn = { work: workLeft, bytes: bytesLeft, messages: 0 };
        }
      }
    }
    return result;
  };
}

const searched = ({ subject, text, from, to, cc, filenames }: Row): SearchedMessage => ({
  subject,
  text,
  from: JSON.parse(from),
  to: JSON.parse(to),
  cc: JSON.parse(cc),
  filenames: JSON.parse(filenames),
});
