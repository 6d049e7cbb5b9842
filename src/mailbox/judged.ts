/** Why a message that came is in spam, or is not: what was thought of it then, and what people said since. */
import { eq, sql } from "drizzle-orm";
import { type JunkClue, messageJudgements, messages } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

export interface JudgementView {
  /** Why it was filed to spam: its sender, how it arrived (DMARC), or the junk filter; null when it was not. */
  filedFor: "sender" | "arrival" | "junk" | null;
  /** How much it is like the mailbox's junk, 0 to 1; null while the filter has no opinion. */
  score: number | null;
  /** What the score comes from, the strongest first. */
  clues: JunkClue[];
  /** What somebody made of it since, by moving, archiving or answering it. */
  trained: "spam" | "ham" | null;
}

const judgementOf = prepared((db) =>
  db
    .select({
      filedFor: messageJudgements.filedFor,
      score: messageJudgements.score,
      clues: messageJudgements.clues,
      trained: messageJudgements.trained,
    })
    .from(messages)
    .innerJoin(messageJudgements, eq(messageJudgements.messageSeq, messages.seq))
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
);

/** Of a message by its id; who may ask is the caller's to know. */
export function readJudgement(db: Db, id: string): JudgementView {
  const found = judgementOf(db).get({ id });
  return { filedFor: null, score: null, trained: null, ...found, clues: found?.clues ?? [] };
}
