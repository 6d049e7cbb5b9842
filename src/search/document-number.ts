/**
 * The numbers of messages in the search index (message_index.rowid). FTS5 keeps, for every word of every message, how far
 * its number is from the one before: numbers that lie close together take half of the index that messages.seq would. So
 * the messages of a conversation have numbers by fours, each four side by side with those of its neighbours: in a block of
 * conversations first their first four, which are all that most have, then their second. Those of the longest lie far
 * above. Pure arithmetic, in both directions; 0015_search_layout.sql does the same.
 *
 *   block of 4,096 conversations:   their messages 0 to 3, their messages 4 to 7, … their messages 28 to 31
 *   others:                         FAR + messages.seq
 */
import { MESSAGES_PER_THREAD } from "../store/schema.ts";
import { type SeqSet, setOf } from "./sets.ts";

/**
 * Messages of a conversation side by side, conversations of a block, and messages of each that are near. Of mail that
 * people wrote the numbers take 8 % less than with eight of each conversation side by side and the others far above, of
 * conversations of three 3 %.
 */
const BESIDE = 4;
const BLOCK = 4_096;
const NEAR = 32;
/** Numbers from one four of a conversation to its next, and from block to block. */
const ROW = BLOCK * BESIDE;
const BLOCK_NUMBERS = BLOCK * NEAR;
/** Above the numbers of 2^43 conversations; the sum stays an exact number for 2^36. */
const FAR = 2 ** 48;

/** threads.seq of a message. */
export const threadOf = (messageSeq: number): number => Math.floor(messageSeq / MESSAGES_PER_THREAD);

/** Of a message that is near, by its conversation and its place in that. */
function nearNumber(thread: number, ordinal: number): number {
  const block = Math.floor(thread / BLOCK);
  const place = ordinal % BESIDE;
  return block * BLOCK_NUMBERS + ((ordinal - place) / BESIDE) * ROW + (thread - block * BLOCK) * BESIDE + place;
}

/** Of a message, by messages.seq. */
export function documentNumberOf(messageSeq: number): number {
  const thread = threadOf(messageSeq);
  const ordinal = messageSeq - thread * MESSAGES_PER_THREAD;
  return ordinal < NEAR ? nearNumber(thread, ordinal) : FAR + messageSeq;
}

/** Whether its number is among those that lie close together. */
export const isNear = (document: number): boolean => document < FAR;

/** For shifts, which serve for numbers of 31 bits: of the first 67 million conversations. */
const SMALL = 2 ** 31;
const BITS_OF_BLOCK_NUMBERS = Math.log2(BLOCK_NUMBERS);
const BITS_BESIDE = Math.log2(BESIDE);

/** threads.seq of a document. */
export function threadOfDocument(document: number): number {
  // Of a search that finds a hundred thousand, dividing would take a tenth of the time.
  if (document < SMALL) {
    return (document >>> BITS_OF_BLOCK_NUMBERS) * BLOCK + ((document & (ROW - 1)) >>> BITS_BESIDE);
  }
  if (document >= FAR) return threadOf(document - FAR);
  const block = Math.floor(document / BLOCK_NUMBERS);
  return block * BLOCK + Math.floor(((document - block * BLOCK_NUMBERS) % ROW) / BESIDE);
}

const nearOrdinal = (document: number): number =>
  (Math.floor(document / ROW) % (NEAR / BESIDE)) * BESIDE + (document % BESIDE);

/** messages.seq of a document. */
export const messageOf = (document: number): number =>
  document < FAR ? threadOfDocument(document) * MESSAGES_PER_THREAD + nearOrdinal(document) : document - FAR;

/** In SQL, threads.seq of a document. */
export const threadSql = (document: string): string =>
  `iif(${document} < ${FAR}, ${document} / ${BLOCK_NUMBERS} * ${BLOCK} + ${document} / ${BESIDE} % ${BLOCK},
    (${document} - ${FAR}) / ${MESSAGES_PER_THREAD})`;

/** In SQL, messages.seq of a document. */
export const messageSql = (document: string): string =>
  `iif(${document} < ${FAR}, ${threadSql(document)} * ${MESSAGES_PER_THREAD}
    + ${document} / ${ROW} % ${NEAR / BESIDE} * ${BESIDE} + ${document} % ${BESIDE}, ${document} - ${FAR})`;

/** The conversations of documents. */
export const threadsOf = (documents: readonly number[]): SeqSet => setOf(documents, threadOfDocument);

/** Numbers from and to, inclusive. `inOrder`: in that of the conversations; else of blocks alone. */
export interface NumberRange {
  from: number;
  to: number;
  inOrder: boolean;
}

/** The first of each four, the last ones first. */
const FIRSTS = Array.from({ length: NEAR / BESIDE }, (_, four) => NEAR - (four + 1) * BESIDE);

/**
 * The numbers that the messages of conversations from `first` to `last` may have, the later ones of a conversation first.
 * Where those lie in more than two blocks the ranges are fewer, and have numbers of others in the first and the last.
 */
export function rangesOf(first: number, last: number): NumberRange[] {
  const far = {
    from: FAR + first * MESSAGES_PER_THREAD,
    to: FAR + (last + 1) * MESSAGES_PER_THREAD - 1,
    inOrder: true,
  };
  const rows = (from: number, to: number): NumberRange[] =>
    FIRSTS.map((ordinal) => ({
      from: nearNumber(from, ordinal),
      to: nearNumber(to, ordinal) + BESIDE - 1,
      inOrder: true,
    }));
  const [firstBlock, lastBlock] = [Math.floor(first / BLOCK), Math.floor(last / BLOCK)];
  if (firstBlock === lastBlock) return [far, ...rows(first, last)];
  const begins = lastBlock * BLOCK;
  if (lastBlock === firstBlock + 1) return [far, ...rows(begins, last), ...rows(first, begins - 1)];
  return [far, { from: firstBlock * BLOCK_NUMBERS, to: (lastBlock + 1) * BLOCK_NUMBERS - 1, inOrder: false }];
}

/** Of a range that was read from its end as far as this document: the first conversation of which it all was read. */
export const firstWhole = ({ inOrder }: NumberRange, document: number): number =>
  inOrder ? threadOfDocument(document) + 1 : (Math.floor(document / BLOCK_NUMBERS) + 1) * BLOCK;
