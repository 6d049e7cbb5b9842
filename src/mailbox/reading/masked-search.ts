/**
 * Decides which conversations a query finds for a caller that reads no codes: those with a message that satisfies it as
 * the caller may read it, masked (rules: Codes). Otherwise a guess of a code would be found, or would exclude its message.
 *
 * Invariant: which messages of a conversation are read does not depend on what is hidden in them, and what is not read is
 * not found.
 */
import { letOthersRun } from "../../base/pause.ts";
import { toThreadSeq } from "../../search/document-number.ts";
import { foldDocument } from "../../search/fold.ts";
import { createQueryMatcher } from "../../search/matching.ts";
import type { MessageCondition } from "../../search/query.ts";
import { statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { type MaskRows, readMessages, splitMessagesIntoBatches } from "./highlights.ts";

/** Conversations that a search finds. */
const MOST_FOUND = 200;
/** Conversations that may have to be read for it, and messages of each, the latest. */
export const MOST_READ = 500;
const MOST_OF_EACH = 20;
/** Limits on all messages that are read, and on the bytes of their bodies. */
const MOST_MESSAGES = 1_000;
const MOST_BYTES = 16 * 1024 * 1024;

const statements = {
  latest: statement<{ seq: number }, [threadSeq: number]>(
    `SELECT seq FROM messages WHERE thread_seq = ? ORDER BY seq DESC LIMIT ${MOST_OF_EACH}`,
  ),
};

/** `matches`: the messages that match, by threads.seq. `isAll`: there are no others. */
export interface MaskedMatches {
  matches: Map<number, number[]>;
  isAll: boolean;
}

/** Reads conversations (threads.seq, newest first) until enough match. @throws AppError server_error 503 */
export async function findMaskedMatches(
  db: Db,
  conditions: readonly MessageCondition[],
  threads: readonly number[],
  maskRows: MaskRows,
  mostFound = MOST_FOUND,
): Promise<MaskedMatches> {
  const satisfies = createQueryMatcher([conditions]);
  const matches = new Map<number, number[]>();
  const seqs: number[] = [];
  for (const thread of threads.slice(0, MOST_READ)) {
    if (seqs.length >= MOST_MESSAGES) break;
    for (const { seq } of statements.latest(db).all(thread)) seqs.push(seq);
  }
  let isAll = threads.length <= MOST_READ && seqs.length < MOST_MESSAGES;
  for (const { messages, bodies } of splitMessagesIntoBatches(db, seqs, MOST_BYTES)) {
    if (bodies.length < messages.length) isAll = false;
    for (const { seq, from, hasAttachments, ...row } of await maskRows(readMessages(db, bodies, bodies))) {
      const document = foldDocument({ ...row, from: [from] });
      const [isMatch] = satisfies({ document, date: row.date, size: row.size, hasAttachments: hasAttachments === 1 });
      const thread = toThreadSeq(seq);
      if (!isMatch) continue;
      if (matches.size === mostFound && !matches.has(thread)) return { matches, isAll: false };
      matches.set(thread, [...(matches.get(thread) ?? []), seq]);
    }
    await letOthersRun();
  }
  return { matches, isAll };
}
