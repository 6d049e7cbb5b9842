/**
 * The numbers of messages in the search index (message_index.rowid). FTS5 keeps, for every word of every message, how far
 * its number is from the one before: numbers that lie close together take half of the index that messages.seq would. So
 * the first messages of a conversation, which are all that most have, have numbers side by side with those of its
 * neighbours, and the others lie far above. Pure arithmetic, in both directions; 0015_search_layout.sql does the same.
 *
 *   ordinal below NEAR   threads.seq * NEAR + ordinal        (ordinal: messages.seq % MESSAGES_PER_THREAD)
 *   others               FAR + messages.seq
 */
import { MESSAGES_PER_THREAD } from "../store/schema.ts";

/**
 * Numbers that a conversation has near its neighbours'. With 4 an index of conversations of three is 2 % smaller, with 16
 * it is 2 % larger; it is the long conversations that gain by more.
 */
const NEAR = 8;
/** Above the numbers of 2^45 conversations; the sum stays an exact number for 2^36. */
const FAR = 2 ** 48;

/** threads.seq of a message. */
export const threadOf = (messageSeq: number): number => Math.floor(messageSeq / MESSAGES_PER_THREAD);

/** Of a message, by messages.seq. */
export function documentNumberOf(messageSeq: number): number {
  const ordinal = messageSeq % MESSAGES_PER_THREAD;
  return ordinal < NEAR ? threadOf(messageSeq) * NEAR + ordinal : FAR + messageSeq;
}

/** The same in SQL, of an expression. */
export const documentSql = (messageSeq: string): string =>
  `iif(${messageSeq} % ${MESSAGES_PER_THREAD} < ${NEAR}, ${messageSeq} / ${MESSAGES_PER_THREAD} * ${NEAR} + ${messageSeq} % ${MESSAGES_PER_THREAD}, ${messageSeq} + ${FAR})`;

/** Whether its number is among those that lie close together. */
export const isNear = (document: number): boolean => document < FAR;

/** messages.seq of a document. */
export const messageOf = (document: number): number =>
  document < FAR ? Math.floor(document / NEAR) * MESSAGES_PER_THREAD + (document % NEAR) : document - FAR;

/** The same in SQL, of an expression. */
export const messageSql = (document: string): string =>
  `iif(${document} < ${FAR}, ${document} / ${NEAR} * ${MESSAGES_PER_THREAD} + ${document} % ${NEAR}, ${document} - ${FAR})`;

/** In SQL, threads.seq of a document. */
export const threadSql = (document: string): string =>
  `iif(${document} < ${FAR}, ${document} / ${NEAR}, (${document} - ${FAR}) / ${MESSAGES_PER_THREAD})`;

/** The numbers that the messages of conversations from `first` to `last` (threads.seq) may have, each way from and to, inclusive. */
export const numbersOf = (
  first: number,
  last: number,
): { near: [from: number, to: number]; far: [from: number, to: number] } => ({
  near: [first * NEAR, (last + 1) * NEAR - 1],
  far: [FAR + first * MESSAGES_PER_THREAD, FAR + (last + 1) * MESSAGES_PER_THREAD - 1],
});

/** In SQL, a number that is shorter than a document's and still tells its conversation (`threadsOf`). */
export const placeSql = (document: string): string => `${document} / ${NEAR}`;

/** The same of a number. */
export const placeOf = (document: number): number => Math.floor(document / NEAR);

const FAR_PLACE = FAR / NEAR;
const PLACES_OF_FAR_THREAD = MESSAGES_PER_THREAD / NEAR;

/** Of places in ascending order, the conversations (threads.seq), ascending, each once. One pass: there may be a hundred thousand. */
export function threadsOf(places: readonly number[]): number[] {
  let end = places.length;
  while (end > 0 && (places[end - 1] as number) >= FAR_PLACE) end--;
  const far = places.slice(end).map((place) => Math.floor((place - FAR_PLACE) / PLACES_OF_FAR_THREAD));
  far.push(Number.MAX_SAFE_INTEGER);
  const threads: number[] = [];
  let last = -1;
  // The near ones are in order of their conversations, and so are the far ones.
  for (let i = 0, j = 0; i < end || j < far.length - 1; ) {
    const other = far[j] as number;
    let thread = i < end ? (places[i] as number) : other;
    if (other < thread) {
      thread = other;
      j++;
    } else if (i < end) i++;
    else j++;
    if (thread !== last) threads.push(thread);
    last = thread;
  }
  return threads;
}
