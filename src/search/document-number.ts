/**
 * Numbers messages in the search index (message_index.rowid). For every word of every message, FTS5 stores the distance
 * to the previous message's number: dense numbers make the index half as large as messages.seq would. Messages of a
 * conversation are therefore numbered in groups of four, next to those of neighbouring conversations. In a block of
 * conversations, the first four messages of each come first, which are all that most have; then the second four of
 * each. Later messages of long conversations have much higher numbers. Pure arithmetic, in both directions;
 * 0015_search_layout.sql does the same.
 *
 *   block of 4,096 conversations:   their messages 0 to 3, their messages 4 to 7, … their messages 28 to 31
 *   others:                         FAR + messages.seq
 */
import { MESSAGES_PER_THREAD } from "../store/schema.ts";
import { createSeqSet, type SeqSet } from "./sets.ts";

/**
 * Messages in a group, conversations in a block, and dense messages per conversation. For mail that people wrote, the
 * index is 8 % smaller than with groups of eight and all others sparse; for conversations of three, 3 %.
 */
const BESIDE = 4;
const BLOCK = 4_096;
const NEAR = 32;
/** Distance between two groups of four of one conversation, and between blocks. */
const ROW = BLOCK * BESIDE;
const BLOCK_NUMBERS = BLOCK * NEAR;
/** Above the numbers of 2^43 conversations; the sum is exact for 2^36 of them. */
const FAR = 2 ** 48;

/** threads.seq of a message. */
export const toThreadSeq = (messageSeq: number): number => Math.floor(messageSeq / MESSAGES_PER_THREAD);

/** The number of a near message, by conversation and position in it. */
function nearNumber(thread: number, ordinal: number): number {
  const block = Math.floor(thread / BLOCK);
  const rest = ordinal % BESIDE;
  return block * BLOCK_NUMBERS + ((ordinal - rest) / BESIDE) * ROW + (thread - block * BLOCK) * BESIDE + rest;
}

/** The number of a message, by messages.seq. */
export function toDocumentNumber(messageSeq: number): number {
  const thread = toThreadSeq(messageSeq);
  const ordinal = messageSeq - thread * MESSAGES_PER_THREAD;
  return ordinal < NEAR ? nearNumber(thread, ordinal) : FAR + messageSeq;
}

/** True if a number is in the dense range. */
export const isNearDocument = (document: number): boolean => document < FAR;

/** Shifts work up to 31 bits, which covers the first 67 million conversations. */
const SMALL = 2 ** 31;
const BITS_OF_BLOCK_NUMBERS = Math.log2(BLOCK_NUMBERS);
const BITS_BESIDE = Math.log2(BESIDE);

/** threads.seq of a document. */
export function threadOfDocument(document: number): number {
  // Division would take a tenth of the time of a search with a hundred thousand hits.
  if (document < SMALL) {
    return (document >>> BITS_OF_BLOCK_NUMBERS) * BLOCK + ((document & (ROW - 1)) >>> BITS_BESIDE);
  }
  if (document >= FAR) return toThreadSeq(document - FAR);
  const block = Math.floor(document / BLOCK_NUMBERS);
  return block * BLOCK + Math.floor(((document - block * BLOCK_NUMBERS) % ROW) / BESIDE);
}

const nearOrdinal = (document: number): number =>
  (Math.floor(document / ROW) % (NEAR / BESIDE)) * BESIDE + (document % BESIDE);

/** messages.seq of a document. */
export const toMessageSeq = (document: number): number =>
  document < FAR ? threadOfDocument(document) * MESSAGES_PER_THREAD + nearOrdinal(document) : document - FAR;

/** In SQL, threads.seq of a document. */
export const formatThreadSeqSql = (document: string): string =>
  `iif(${document} < ${FAR}, ${document} / ${BLOCK_NUMBERS} * ${BLOCK} + ${document} / ${BESIDE} % ${BLOCK},
    (${document} - ${FAR}) / ${MESSAGES_PER_THREAD})`;

/** In SQL, messages.seq of a document. */
export const formatMessageSeqSql = (document: string): string =>
  `iif(${document} < ${FAR}, ${formatThreadSeqSql(document)} * ${MESSAGES_PER_THREAD}
    + ${document} / ${ROW} % ${NEAR / BESIDE} * ${BESIDE} + ${document} % ${BESIDE}, ${document} - ${FAR})`;

/** The conversations of documents. */
export const documentThreadSet = (documents: readonly number[]): SeqSet => createSeqSet(documents, threadOfDocument);

/** From and to, inclusive. `inOrder`: ordered by conversation, otherwise only by block. */
export interface NumberRange {
  from: number;
  to: number;
  inOrder: boolean;
}

/** The first message of each group of four, last group first. */
const FIRSTS = Array.from({ length: NEAR / BESIDE }, (_, four) => NEAR - (four + 1) * BESIDE);

/**
 * The ranges of numbers that the messages of conversations `first` to `last` can have, later messages of a conversation
 * first. Over more than two blocks there are fewer ranges, whose first and last block include other conversations.
 */
export function listDocumentRanges(first: number, last: number): NumberRange[] {
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

/** For a range read from its end down to this document: the first conversation that was read completely. */
export const findFirstWholeThread = ({ inOrder }: NumberRange, document: number): number =>
  inOrder ? threadOfDocument(document) + 1 : (Math.floor(document / BLOCK_NUMBERS) + 1) * BLOCK;
