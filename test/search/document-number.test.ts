/** Document numbers: unique, reversible, dense for most messages; and SQL that computes the same. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  documentThreadSet,
  findFirstWholeThread,
  formatMessageSeqSql,
  formatThreadSeqSql,
  listDocumentRanges,
  threadOfDocument,
  toDocumentNumber,
  toMessageSeq,
  toThreadSeq,
} from "../../src/search/document-number.ts";
import { listSeqsInSet } from "../../src/search/sets.ts";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { MESSAGES_PER_THREAD } from "../../src/store/schema.ts";

const seqOf = (thread: number, ordinal: number): number => thread * MESSAGES_PER_THREAD + ordinal;
/** Extreme values are as likely as others. */
const thread = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 4_000, max: 8_300 }),
  fc.integer({ min: 2 ** 26 - 40, max: 2 ** 26 + 40 }),
  fc.integer({ min: 1, max: 2 ** 32 }),
  fc.constant(2 ** 32),
);
const ordinal = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: MESSAGES_PER_THREAD - 1 }));
const message = fc.tuple(thread, ordinal).map(([one, other]) => seqOf(one, other));

const sqlite = new Database(":memory:");
const inSql = (expression: (document: string) => string, documents: readonly number[]): number[] => {
  const select = `SELECT json_group_array(${expression("value")}) AS found FROM json_each(?)`;
  return JSON.parse((sqlite.query(select).get(JSON.stringify(documents)) as { found: string }).found);
};

test("each message has a unique, reversible number, here and in SQL", () => {
  fc.assert(
    fc.property(fc.uniqueArray(message), (messages) => {
      const documents = messages.map(toDocumentNumber);
      expect(new Set(documents).size).toBe(messages.length);
      expect(documents.every(Number.isSafeInteger)).toBe(true);
      expect(documents.map(toMessageSeq)).toEqual(messages);
      expect(documents.map(threadOfDocument)).toEqual(messages.map(toThreadSeq));
      expect(inSql(formatMessageSeqSql, documents)).toEqual(messages);
      expect(inSql(formatThreadSeqSql, documents)).toEqual(messages.map(toThreadSeq));
    }),
  );
});

test("the trigger that removes deleted mail from the index computes the same numbers", () => {
  const trigger = /TRIGGER messages_leave_index .*? WHERE rowid = (iif\(.*?\));/s;
  const [, number = ""] = trigger.exec(MIGRATIONS.findLast((sql) => trigger.test(sql)) ?? "") ?? [];
  fc.assert(
    fc.property(fc.uniqueArray(message), (messages) => {
      const byTrigger = inSql((seq) => number.replaceAll("old.seq", seq), messages);
      expect(byTrigger).toEqual(messages.map(toDocumentNumber));
    }),
  );
});

test("first messages of neighbours have adjacent numbers, and so do later ones", () => {
  const [first, next, fourth, neighbours] = [seqOf(5, 0), seqOf(5, 1), seqOf(5, 3), seqOf(6, 0)].map(toDocumentNumber);
  expect([next, fourth, neighbours].map((number) => Number(number) - Number(first))).toEqual([1, 3, 4]);
  const [fifth, eighth, fifthOfNext] = [seqOf(5, 4), seqOf(5, 7), seqOf(6, 4)].map(toDocumentNumber);
  expect([eighth, fifthOfNext].map((number) => Number(number) - Number(fifth))).toEqual([3, 4]);
});

test("threadsOf gives the conversations of documents, each once", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 9_000 }), ordinal)), (places) => {
      const messages = places.map(([one, other]) => seqOf(one, other));
      const expected = [...new Set(messages.map(toThreadSeq))].sort((a, b) => a - b);
      expect(listSeqsInSet(documentThreadSet(messages.map(toDocumentNumber)))).toEqual(expected);
    }),
  );
});

test("rangesOf covers the messages of conversations, later ones first, and firstWhole gives how far a range was read", () => {
  fc.assert(
    fc.property(
      thread,
      fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 13_000 })),
      fc.uniqueArray(message),
      (first, more, messages) => {
        const last = first + more;
        const edges = [0, 3, 4, 31, 32].flatMap((one) =>
          [first - 1, first, last, last + 1].map((seq) => seqOf(seq, one)),
        );
        const all = [...new Set([...messages, ...edges])];
        const isWanted = (seq: number): boolean => toThreadSeq(seq) >= first && toThreadSeq(seq) <= last;
        const read: number[] = [];
        for (const range of listDocumentRanges(first, last)) {
          const documents = all.map(toDocumentNumber).filter((number) => number >= range.from && number <= range.to);
          for (const [i, document] of documents.sort((a, b) => b - a).entries()) {
            const rest = documents.slice(i + 1).map(threadOfDocument);
            expect(Math.max(...rest)).toBeLessThan(findFirstWholeThread(range, document));
          }
          read.push(...documents.map(toMessageSeq));
        }
        expect(new Set(read).size).toBe(read.length);
        // Few conversations have ranges without others.
        const wanted = more < 4_096 ? read : read.filter(isWanted);
        expect(wanted.toSorted((a, b) => a - b)).toEqual(all.filter(isWanted).sort((a, b) => a - b));
        for (const [i, seq] of read.entries()) {
          expect(read.slice(i).filter((other) => toThreadSeq(other) === toThreadSeq(seq) && other > seq)).toEqual([]);
        }
      },
    ),
  );
});
