/**
 * The entries of reads: one for each key, operation and minute, and way and source where they differ (rules: Journal).
 * They are gathered in memory and written when the minute is over, many in one transaction: a read costs no write of its
 * own, and a crash loses those of the last minute.
 *
 * Invariant: the memory that they take is bounded. Where it is full, or the store unavailable for long, the journal says in
 * the log how many reads it does not tell.
 */
import { eq, sql } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import type { Job } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { apiKeys, journalEntries } from "../store/schema.ts";
import { prepared, statement } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import { MOST_IDS } from "./entries.ts";

export type ReadJournal = ReturnType<typeof createReadJournal>;

const MINUTE_MS = 60_000;
/** Entries in memory; with all their ids some 60 MB, with the usual few some 5 MB. */
const MOST_ENTRIES = 10_000;
/** Entries written in one transaction. */
const PORTION = 200;

type Reader = Pick<Caller, "keyId" | "userId" | "workspaceId" | "origin">;

interface Gathered {
  values: {
    at: number;
    workspaceId: string;
    keyId: string;
    userId: string;
    operation: string;
    face: string | null;
    client: string | null;
    source: string | null;
  };
  reads: number;
  ids: Set<string>;
}

const statements = {
  add: statement<unknown, [reads: number, ids: string, seq: number]>(
    "UPDATE journal_entries SET reads = ?, ids = ? WHERE seq = ?",
  ),
};

const queries = prepared((db) => {
  const value = sql.placeholder;
  return {
    isKnown: db
      .select({ id: apiKeys.id })
      .from(apiKeys)
      .where(eq(apiKeys.id, value("keyId")))
      .prepare(),
    /** The entry of the same minute that was written before, by this process or the one before it. */
    find: db
      .select({ seq: journalEntries.seq, reads: journalEntries.reads, ids: journalEntries.ids })
      .from(journalEntries)
      .where(
        sql`${journalEntries.workspaceId} = ${value("workspaceId")} AND ${journalEntries.keyId} = ${value("keyId")}
          AND ${journalEntries.at} >= ${value("from")} AND ${journalEntries.at} < ${value("until")}
          AND ${journalEntries.reads} IS NOT NULL AND ${journalEntries.operation} = ${value("operation")}
          AND ${journalEntries.face} IS ${value("face")} AND ${journalEntries.client} IS ${value("client")}
          AND ${journalEntries.source} IS ${value("source")}`,
      )
      .limit(1)
      .prepare(),
    put: db
      .insert(journalEntries)
      .values({
        at: value("at"),
        workspaceId: value("workspaceId"),
        keyId: value("keyId"),
        userId: value("userId"),
        operation: value("operation"),
        face: value("face"),
        client: value("client"),
        source: value("source"),
        ids: value("ids"),
        outcome: "ok",
        reads: value("reads"),
        changes: 0,
        recipients: 0,
        sent: 0,
      })
      .prepare(),
  };
});

const epochMinute = (at: number): number => Math.floor(at / MINUTE_MS);

function addIds(to: Set<string>, ids: Iterable<string>): void {
  for (const id of ids) {
    if (to.size >= MOST_IDS) return;
    to.add(id);
  }
}

function write(tx: Tx, { values, reads, ids }: Gathered): void {
  // The person may have been erased meanwhile, and their keys with all that was known of them.
  if (!queries(tx).isKnown.get({ keyId: values.keyId })) return;
  const from = epochMinute(values.at) * MINUTE_MS;
  const known = queries(tx).find.get({ ...values, from, until: from + MINUTE_MS });
  if (!known) {
    queries(tx).put.run({ ...values, reads, ids: [...ids] });
    return;
  }
  const all = new Set(known.ids);
  addIds(all, ids);
  statements.add(tx).run((known.reads ?? 0) + reads, JSON.stringify([...all]), known.seq);
}

export function createReadJournal({ store, runtime, log }: Core) {
  let gathered = new Map<string, Gathered>();
  let untold = 0;

  /** Notes a read of a key; of a caller without one, nothing. */
  function note({ keyId, userId, workspaceId, origin }: Reader, ids: readonly string[]): void {
    if (keyId === undefined) return;
    const at = runtime.now();
    const { operation = "other", face = null, client = null, source = null } = { ...origin };
    const name = [epochMinute(at), keyId, operation, face, source, client].join(" ");
    let one = gathered.get(name);
    if (!one) {
      if (gathered.size >= MOST_ENTRIES) {
        untold++;
        return;
      }
      const values = { at, workspaceId, keyId, userId, operation, face, client, source };
      one = { values, reads: 0, ids: new Set() };
      gathered.set(name, one);
    }
    one.reads++;
    addIds(one.ids, ids);
  }

  /** Writes the reads that were gathered before `minute`. Reads that cannot be written are kept for the next time. */
  async function flush(minute = Number.POSITIVE_INFINITY): Promise<void> {
    const due = [...gathered].filter(([, { values }]) => epochMinute(values.at) < minute);
    for (let from = 0; from < due.length; from += PORTION) {
      const portion = due.slice(from, from + PORTION);
      // Taken out first: what is read meanwhile begins a new one.
      for (const [name] of portion) gathered.delete(name);
      try {
        await store.note((tx) => {
          for (const [, one] of portion) write(tx, one);
        });
      } catch (error) {
        gathered = new Map([...portion, ...gathered]);
        throw error;
      }
    }
    if (untold > 0) log.warn("the journal does not tell some reads", { reads: untold });
    untold = 0;
  }

  const job: Job = {
    name: "journal-reads",
    async runDue(now) {
      await flush(epochMinute(now));
      return (epochMinute(now) + 1) * MINUTE_MS;
    },
  };

  return { note, flush: () => flush(), job };
}
