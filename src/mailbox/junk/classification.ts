/**
 * Classifies an arriving message as spam or not (rules: Spam), stores the classification, and reads it with what people
 * have taught the filter since. With training.ts the only writer of message_judgements.
 */
import { eq, sql } from "drizzle-orm";
import type { EmailAddress } from "../../message/address.ts";
import { type AuthVerdicts, type FILED_FOR, type JunkClue, messageJudgements, messages } from "../../store/schema.ts";
import type { Options } from "../../store/settings.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { type Scored, scoreByJunkFilter } from "./junk-filter.ts";
import { findSenderVerdict, isExemptFromJunkFilter, readJunkSender } from "./senders.ts";
import { listSenderJunkTokens } from "./tokens.ts";

/** How an arriving message was classified. */
export interface Classification {
  /** The reason why it is filed to spam. */
  filedFor?: (typeof FILED_FOR)[number] | undefined;
  scored?: Scored | undefined;
}

/**
 * The first of these that has an opinion decides: what people said of the sender, the arrival (DMARC), and, unless the
 * sender is trusted, the mailbox's junk filter.
 */
export function classifyReceivedMessage(
  tx: Tx,
  mailboxId: string,
  message: {
    from: EmailAddress;
    auth: AuthVerdicts | undefined;
    /** The arrival itself marks it as spam. */
    spam: boolean | undefined;
    /** Separated by spaces. */
    junkTokens: string | undefined;
  },
  options: Pick<Options, "get">,
): Classification {
  const { from, auth, spam, junkTokens } = message;
  const sender = readJunkSender(from, auth);
  const verdict = findSenderVerdict(tx, mailboxId, sender);
  const threshold = options.get("spam.junkThreshold");
  const tokens = () => [...(junkTokens?.split(" ") ?? []), ...listSenderJunkTokens(sender, auth)];
  const scored = threshold === "off" ? undefined : scoreByJunkFilter(tx, mailboxId, tokens);
  const isJunk = scored !== undefined && threshold !== "off" && scored.score >= threshold;
  if (verdict === "spam") return { filedFor: "sender", scored };
  if (spam === true) return { filedFor: "arrival", scored };
  return { filedFor: isJunk && !isExemptFromJunkFilter(sender, verdict) ? "junk" : undefined, scored };
}

/** Clues kept with a message. */
const MOST_CLUES = 10;

const insertJudgement = statement<unknown, [number, string | null, number | null, string | null]>(
  "INSERT INTO message_judgements (message_seq, filed_for, score, clues) VALUES (?, ?, ?, ?)",
);

/** Stores the classification of a message, if there is one. */
export function recordClassification(tx: Tx, messageSeq: number, { filedFor, scored }: Classification): void {
  if (filedFor === undefined && scored === undefined) return;
  const clues = scored && JSON.stringify(scored.clues.slice(0, MOST_CLUES));
  insertJudgement(tx).run(messageSeq, filedFor ?? null, scored?.score ?? null, clues ?? null);
}

export interface ClassificationView {
  /** Why it was filed to spam: its sender, its arrival (DMARC), or the junk filter; null if it was not. */
  filedFor: "sender" | "arrival" | "junk" | null;
  /** Similarity to the mailbox's junk, 0 to 1; null while the filter has no opinion. */
  score: number | null;
  /** The tokens behind the score, strongest first. */
  clues: JunkClue[];
  /** The kind that it counts as in the filter since somebody moved, archived or answered it; null for none. */
  trained: "spam" | "ham" | null;
}

const findClassification = prepared((db) =>
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

/** Reads the classification of a message by id. The caller checks access. */
export function readClassification(db: Db, id: string): ClassificationView {
  const found = findClassification(db).get({ id });
  return { filedFor: null, score: null, trained: null, ...found, clues: found?.clues ?? [] };
}
