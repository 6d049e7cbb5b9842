/**
 * Scores how much a message resembles a mailbox's junk, by G. Robinson's method with R. A. Fisher's way of combining
 * probabilities. The frequency of each token in spam and in ham gives a probability of spam. The significant ones are
 * combined as independent tests of two hypotheses; if both or neither hold, the score stays in the middle. Pure.
 */
import type { JunkClue } from "../../store/schema.ts";

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

export const isTrained = ({ spam, ham }: Trained): boolean => spam >= LEAST_TRAINED && ham >= LEAST_TRAINED;

/** Undefined while too little is known about the mailbox's mail or the message. The order of `tokens` is irrelevant. */
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

/** Robinson's f(w). Counts may exceed the totals if tokens outlived the unlearning of a message. */
function probabilityOf(trained: Trained, counts: Trained): number {
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
