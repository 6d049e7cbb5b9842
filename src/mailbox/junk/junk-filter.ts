/**
 * The junk filter of each mailbox: the number of its spam and ham messages that contain each token, and the score that
 * follows for a message. The only writer of junk_filters and junk_tokens.
 *
 * A message costs one look-up while the filter is untrained, and two afterwards. Tokens are stored as 32-bit hashes;
 * with 200,000 tokens, one unknown token in 20,000 collides with a known one.
 */
import type { JUNK_KINDS, JunkClue } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";

export type JunkKind = (typeof JUNK_KINDS)[number];

/** Most rows of a filter, and how many of the most frequent ones remain after pruning. */
const MOST_ROWS = 200_000;
const KEPT_ROWS = 150_000;
/** Messages learned between two counts of the rows. */
const COUNTED_EVERY = 50;
/** Rows deleted per transaction when a mailbox is removed. */
const DELETED_AT_ONCE = 20_000;

type FilterRow = Trained & { seq: number };
type Counts = [token: number, spam: number, ham: number];

const among = "filter_seq = ? AND token IN (SELECT value FROM json_each(?))";

const statements = {
  filter: statement<FilterRow, [string]>("SELECT seq, spam, ham FROM junk_filters WHERE mailbox_id = ?"),
  counts: statement<unknown, [number, string]>(`SELECT token, spam, ham FROM junk_tokens WHERE ${among}`),
  addMessage: statement<FilterRow, [string, number, number]>(
    `INSERT INTO junk_filters (mailbox_id, spam, ham) VALUES (?, ?, ?) ON CONFLICT (mailbox_id)
     DO UPDATE SET spam = spam + excluded.spam, ham = ham + excluded.ham RETURNING seq, spam, ham`,
  ),
  addTokens: statement<unknown, [number, number, number, string]>(
    `INSERT INTO junk_tokens (filter_seq, token, spam, ham) SELECT ?, value, ?, ? FROM json_each(?) WHERE true
     ON CONFLICT DO UPDATE SET spam = spam + excluded.spam, ham = ham + excluded.ham`,
  ),
  // Never below zero: a token may have been pruned and learned again meanwhile.
  removeMessage: statement<unknown, [number, number, number]>(
    "UPDATE junk_filters SET spam = max(0, spam - ?), ham = max(0, ham - ?) WHERE seq = ?",
  ),
  removeTokens: statement<unknown, [number, number, number, string]>(
    `UPDATE junk_tokens SET spam = max(0, spam - ?), ham = max(0, ham - ?) WHERE ${among}`,
  ),
  dropEmpty: statement<unknown, [number, string]>(`DELETE FROM junk_tokens WHERE ${among} AND spam = 0 AND ham = 0`),
  rows: statement<{ n: number }, [number]>("SELECT count(*) AS n FROM junk_tokens WHERE filter_seq = ?"),
  prune: statement<unknown, [number, number]>("DELETE FROM junk_tokens WHERE filter_seq = ? AND spam + ham <= ?"),
  deleteRows: statement<unknown, [number]>(
    `DELETE FROM junk_tokens WHERE filter_seq = ?1 AND token IN
     (SELECT token FROM junk_tokens WHERE filter_seq = ?1 LIMIT ${DELETED_AT_ONCE})`,
  ),
};

const hashToken = (token: string): number => Bun.hash.xxHash32(token) | 0;

const formatTokenHashes = (tokens: readonly string[]): string => JSON.stringify([...new Set(tokens.map(hashToken))]);

/** True if the mailbox's filter has been taught enough to have an opinion. */
export function isJunkFilterTrained(db: Db, mailboxId: string): boolean {
  const filter = statements.filter(db).get(mailboxId);
  return filter !== null && filter !== undefined && isTrained(filter);
}

/** Scores the tokens of a message against the mailbox's junk. Undefined while too little of either is known. */
export function scoreByJunkFilter(tx: Tx, mailboxId: string, tokens: () => readonly string[]): Scored | undefined {
  const filter = statements.filter(tx).get(mailboxId);
  if (!filter || !isTrained(filter)) return undefined;
  const byHash = new Map(tokens().map((token) => [hashToken(token), token]));
  const rows = statements.counts(tx).values(filter.seq, JSON.stringify([...byHash.keys()])) as Counts[];
  return scoreJunkTokens(
    filter,
    rows.map(([hash, spam, ham]) => ({ token: byHash.get(hash) ?? "", spam, ham })),
  );
}

/** Teaches the filter a message. */
export function trainJunkFilter(tx: Tx, mailboxId: string, tokens: readonly string[], kind: JunkKind): void {
  const [spam, ham] = kind === "spam" ? [1, 0] : [0, 1];
  const filter = statements.addMessage(tx).get(mailboxId, spam, ham);
  if (!filter) throw new Error("writing a junk filter returned no row");
  statements.addTokens(tx).run(filter.seq, spam, ham, formatTokenHashes(tokens));
  if ((filter.spam + filter.ham) % COUNTED_EVERY === 0) prune(tx, filter.seq);
}

/** Reverts `learn` for a message with the same tokens. */
export function untrainJunkFilter(tx: Tx, mailboxId: string, tokens: readonly string[], kind: JunkKind): void {
  const filter = statements.filter(tx).get(mailboxId);
  if (!filter) return;
  const [spam, ham] = kind === "spam" ? [1, 0] : [0, 1];
  const hashes = formatTokenHashes(tokens);
  statements.removeMessage(tx).run(spam, ham, filter.seq);
  statements.removeTokens(tx).run(spam, ham, filter.seq, hashes);
  statements.dropEmpty(tx).run(filter.seq, hashes);
}

/** Forgets the rarest tokens of a filter that has grown too large. */
function prune(tx: Tx, filterSeq: number): void {
  const rows = () => statements.rows(tx).get(filterSeq)?.n ?? 0;
  if (rows() <= MOST_ROWS) return;
  for (let rarest = 1; rows() > KEPT_ROWS; rarest++) statements.prune(tx).run(filterSeq, rarest);
}

/** Deletes a portion of a mailbox's filter. False if nothing was left. */
export function deleteJunkFilterPortion(tx: Tx, mailboxId: string): boolean {
  const filter = statements.filter(tx).get(mailboxId);
  return filter !== null && filter !== undefined && statements.deleteRows(tx).run(filter.seq).changes > 0;
}

/*
 * The score: how much a message resembles a mailbox's junk, by G. Robinson's method with R. A. Fisher's way of
 * combining probabilities. The frequency of each token in spam and in ham gives a probability of spam. The significant
 * ones are combined as independent tests of two hypotheses; if both or neither hold, the score stays in the middle.
 * Pure.
 */

/** Number of messages that trained a mailbox's filter. */
export interface Trained {
  spam: number;
  ham: number;
}

/** Number of those that contain the token. */
export interface TokenCounts extends Trained {
  token: string;
}

export interface Scored {
  /** 0 to 1. */
  score: number;
  /** The tokens behind it, strongest first. */
  clues: JunkClue[];
}

/** Messages of each kind that the filter needs before it has an opinion. */
export const LEAST_TRAINED = 20;
/** Fewest clues for an opinion on a message. */
const LEAST_CLUES = 8;
const MOST_CLUES = 60;
/** Least distance from one half at which a token counts. */
const LEAST_STRENGTH = 0.2;
/** Robinson's s and x: the assumed probability of an unseen token, and its weight in messages. */
const UNSEEN_WEIGHT = 0.45;
const UNSEEN = 0.5;

const isTrained = ({ spam, ham }: Trained): boolean => spam >= LEAST_TRAINED && ham >= LEAST_TRAINED;

/**
 * Scores a message by its tokens, in any order. Undefined while too little is known about the mailbox's mail or the message.
 */
export function scoreJunkTokens(trained: Trained, tokens: readonly TokenCounts[]): Scored | undefined {
  if (!isTrained(trained)) return undefined;
  const clues: JunkClue[] = [];
  for (const counts of tokens) {
    const probability = estimateSpamProbability(trained, counts);
    if (Math.abs(probability - 0.5) >= LEAST_STRENGTH) clues.push({ token: counts.token, probability });
  }
  clues.sort((a, b) => strength(b) - strength(a) || (a.token < b.token ? -1 : 1));
  clues.splice(MOST_CLUES);
  if (clues.length < LEAST_CLUES) return undefined;
  const sum = (of: (probability: number) => number) =>
    clues.reduce((total, { probability }) => total - 2 * Math.log(of(probability)), 0);
  const spam =
    1 -
    chiSquareTail(
      sum((probability) => 1 - probability),
      clues.length,
    );
  const ham =
    1 -
    chiSquareTail(
      sum((probability) => probability),
      clues.length,
    );
  return { score: Math.min(1, Math.max(0, (1 + spam - ham) / 2)), clues };
}

const strength = ({ probability }: JunkClue): number => Math.abs(probability - 0.5);

/** Robinson's f(w). Counts may exceed the totals if tokens outlived the unlearning of a message. */
function estimateSpamProbability(trained: Trained, counts: Trained): number {
  const spam = Math.min(1, counts.spam / trained.spam);
  const ham = Math.min(1, counts.ham / trained.ham);
  const seen = counts.spam + counts.ham;
  const among = seen === 0 ? UNSEEN : spam / (spam + ham);
  return (UNSEEN_WEIGHT * UNSEEN + seen * among) / (UNSEEN_WEIGHT + seen);
}

/** The probability that a chi-square with 2 × `pairs` degrees of freedom exceeds `value`. */
function chiSquareTail(value: number, pairs: number): number {
  const half = value / 2;
  let term = Math.exp(-half);
  let sum = term;
  for (let i = 1; i < pairs; i++) {
    term *= half / i;
    sum += term;
  }
  return Math.min(1, sum);
}
