/** Numbers of documents: one each, both ways, close together where most messages are; and SQL that does the same. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  documentNumberOf,
  messageOf,
  messageSql,
  numbersOf,
  placeSql,
  threadOf,
  threadSql,
  threadsOf,
} from "../../src/search/document-number.ts";
import { MESSAGES_PER_THREAD } from "../../src/store/schema.ts";

const seqOf = (thread: number, ordinal: number): number => thread * MESSAGES_PER_THREAD + ordinal;
/** The edges of what there can be are as likely as the rest. */
const thread = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 2 ** 32 }), fc.constant(2 ** 32));
const ordinal = fc.oneof(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: MESSAGES_PER_THREAD - 1 }));
const message = fc.tuple(thread, ordinal).map(([one, other]) => seqOf(one, other));

const sqlite = new Database(":memory:");
const inSql = (expression: (document: string) => string, documents: readonly number[]): number[] => {
  const select = `SELECT json_group_array(${expression("value")}) AS found FROM json_each(?)`;
  return JSON.parse((sqlite.query(select).get(JSON.stringify(documents)) as { found: string }).found);
};

test("every message has a number of its own, which leads back to it, here and in SQL", () => {
  fc.assert(
    fc.property(fc.uniqueArray(message), (messages) => {
      const documents = messages.map(documentNumberOf);
      expect(new Set(documents).size).toBe(messages.length);
      expect(documents.every(Number.isSafeInteger)).toBe(true);
      expect(documents.map(messageOf)).toEqual(messages);
      expect(inSql(messageSql, documents)).toEqual(messages);
      expect(inSql(threadSql, documents)).toEqual(messages.map(threadOf));
    }),
  );
});

test("first messages of neighbours lie side by side", () => {
  expect([seqOf(5, 0), seqOf(5, 7), seqOf(6, 0)].map(documentNumberOf)).toEqual([40, 47, 48]);
});

test("places of hits in order tell their conversations, in order, each once", () => {
  fc.assert(
    fc.property(fc.uniqueArray(message), (messages) => {
      const documents = messages.map(documentNumberOf).sort((a, b) => a - b);
      const expected = [...new Set(messages.map(threadOf))].sort((a, b) => a - b);
      expect(threadsOf(inSql(placeSql, documents))).toEqual(expected);
    }),
  );
});

test("the ranges of conversations have the numbers of their messages, and of no others", () => {
  fc.assert(
    fc.property(thread, fc.integer({ min: 0, max: 3 }), message, (first, more, seq) => {
      const { near, far } = numbersOf(first, first + more);
      const document = documentNumberOf(seq);
      const isIn = [near, far].some(([from, to]) => document >= from && document <= to);
      expect(isIn).toBe(threadOf(seq) >= first && threadOf(seq) <= first + more);
    }),
  );
});
