/**
 * How much a message is like the junk of a mailbox, by G. Robinson's method with R. A. Fisher's way of combining
 * probabilities: each token, by how often it stood in spam and in ham, says how likely spam is; those that say anything
 * are taken together as independent tests of two hypotheses, and where both or neither hold the score stays in the
 * middle. Pure.
 */
import type { JunkClue } from "../../store/schema.ts";

/** Messages that the filter of a mailbox was trained with. */
export interface Trained {
  spam: number;
  ham: number;
}

/** Of those, the ones with a token. */
export interface TokenCounts extends Trained {
  token: string;
}

export interface Scored {
  /** 0 to 1. */
  score: number;
  /** What it was made from, the strongest first. */
  clues: JunkClue[];
}

/** Messages of either kind from which on the filter has an opinion. */
export const LEAST_TRAINED = 20;
/** Clues without which it has none of a message. */
const LEAST_CLUES = 8;
const MOST_CLUES = 60;
/** How far from a half a token has to be to say anything. */
const LEAST_STRENGTH = 0.2;
/** Robinson's s and x: what is thought of a token never seen, and how many messages that is worth. */
const UNSEEN_WEIGHT = 0.45;
const UNSEEN = 0.5;

export const isTrained = ({ spam, ham }: Trained): boolean => spam >= LEAST_TRAINED && ham >= LEAST_TRAINED;

/** Undefined while too little is known, of the mailbox's mail or of this message. The order of `tokens` does not count. */
export function scoreOf(trained: Trained, tokens: readonly TokenCounts[]): Scored | undefined {
  if (!isTrained(trained)) return undefined;
  const clues: JunkClue[] = [];
  for (const counts of tokens) {
    const probability = probabilityOf(trained, counts);
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

/** Robinson's f(w). Counts may exceed the totals where tokens outlived the unlearning of a message. */
function probabilityOf(trained: Trained, counts: Trained): number {
  const spam = Math.min(1, counts.spam / trained.spam);
  const ham = Math.min(1, counts.ham / trained.ham);
  const seen = counts.spam + counts.ham;
  const among = seen === 0 ? UNSEEN : spam / (spam + ham);
  return (UNSEEN_WEIGHT * UNSEEN + seen * among) / (UNSEEN_WEIGHT + seen);
}

/** The chance that a chi-square of 2 × `pairs` degrees of freedom exceeds `value`. */
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
