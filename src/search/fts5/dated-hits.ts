/**
 * Which of many hits are of messages of some time. To look each up by its number takes several times as long as to find
 * it; so, where that is less, what lies within the time, or beyond it, is read from the index by date, and compared.
 */
import type { Database } from "bun:sqlite";
import { documentNumberOf, isNear, messageSql, threadSql } from "../document-number.ts";
import { has, setOf } from "../sets.ts";

/** Epoch ms: inclusive and exclusive. */
export interface TimeRange {
  since: number;
  before: number;
}

/** Of documents that lie in the mailboxes (a JSON array of ids), those of messages in the range, in the same order. */
export type KeepDated = (documents: readonly number[], range: TimeRange, mailboxIds: string) => readonly number[];

/** Up to so many are looked up. */
const FEW = 1_000;
/** So many times as many are read by date in the time that looking the hits up takes, and a little less. */
const READ_FOR_EACH = 3;

const IN_MAILBOXES = "messages INDEXED BY messages_by_date WHERE mailbox_id IN (SELECT value FROM json_each(?1))";

/** A JSON array. */
interface Numbers {
  numbers: string;
}

export function createKeepDated(sqlite: Database, { few = FEW, readForEach = READ_FOR_EACH } = {}): KeepDated {
  const seqsOf = (messages: string) => `SELECT json_group_array(seq) AS numbers FROM (${messages})`;
  const selectWithin = sqlite.prepare<Numbers, [string, number, number, number]>(
    seqsOf(`SELECT seq FROM ${IN_MAILBOXES} AND date >= ?2 AND date < ?3 LIMIT ?4`),
  );
  const selectBeyond = sqlite.prepare<Numbers, [string, number, number, number]>(
    seqsOf(
      `SELECT seq FROM ${IN_MAILBOXES} AND date < ?2 UNION ALL SELECT seq FROM ${IN_MAILBOXES} AND date >= ?3 LIMIT ?4`,
    ),
  );
  const dateAt = (order: string) =>
    `(SELECT date FROM messages INDEXED BY messages_by_date WHERE mailbox_id = value ORDER BY date ${order} LIMIT 1)`;
  const selectSpan = sqlite.prepare<{ first: number | null; last: number | null }, [string]>(
    `SELECT min(${dateAt("ASC")}) AS first, max(${dateAt("DESC")}) AS last FROM json_each(?)`,
  );
  const selectLookedUp = sqlite.prepare<Numbers, [string, number, number]>(
    `SELECT json_group_array(value) AS numbers FROM json_each(?) WHERE EXISTS (
       SELECT 1 FROM messages INDEXED BY messages_by_thread
       WHERE thread_seq = ${threadSql("value")} AND seq = ${messageSql("value")} AND date >= ? AND date < ?)`,
  );
  const numbersIn = (row: Numbers | null): number[] => JSON.parse(row?.numbers ?? "[]");

  /** Whether most of the mail is likely to lie within, as if it had come at one pace. */
  function isMostWithin({ since, before }: TimeRange, mailboxIds: string): boolean {
    const { first, last } = selectSpan.get(mailboxIds) ?? {};
    if (first == null || last == null) return true;
    return Math.min(before, last) - Math.max(since, first) > (last - first) / 2;
  }

  return (documents, range, mailboxIds) => {
    const { since, before } = range;
    if (documents.length > few) {
      const most = documents.length * readForEach;
      const isWithin = !isMostWithin(range, mailboxIds);
      const read = numbersIn((isWithin ? selectWithin : selectBeyond).get(mailboxIds, since, before, most));
      if (read.length < most) {
        const isRead = membershipOfDocuments(read.map(documentNumberOf));
        return documents.filter((document) => isRead(document) === isWithin);
      }
    }
    return numbersIn(selectLookedUp.get(JSON.stringify(documents), since, before));
  };
}

/** Bits for those that lie close together. */
function membershipOfDocuments(documents: readonly number[]): (document: number) => boolean {
  const far = new Set(documents.filter((document) => !isNear(document)));
  const near = setOf(far.size === 0 ? documents : documents.filter(isNear));
  return (document) => (isNear(document) ? has(near, document) : far.has(document));
}
