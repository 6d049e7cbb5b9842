/**
 * The journal of API keys: what each did, sent and was refused (rules: Journal). An entry is written in the transaction of
 * what it tells; reads are gathered in reads.ts. With it and retention.ts the only writer of journal_entries.
 *
 * Invariant: an entry holds ids, and never text of mail, queries or recipients.
 */
import { sql } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import { type Face, journalEntries } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

import { requireKeyLimitLeft } from "./limits.ts";

/** Ids that one entry holds. */
export const MOST_IDS = 200;

/** An act of a key, or an attempt at one. */
export interface OperationEntry {
  /** Ids of conversations, messages, drafts and others; the first MOST_IDS are kept. */
  ids: readonly string[];
  /** `held`, or the code of the refusal; by default `ok`. */
  outcome?: string;
  /** Conversations that were changed. */
  changes?: number;
  /** Recipients of a message that was accepted or held. */
  recipients?: number;
  /** Recipients to whom it goes out. */
  sent?: number;
}

const statements = prepared((db) => ({
  put: db
    .insert(journalEntries)
    .values({
      at: sql.placeholder("at"),
      workspaceId: sql.placeholder("workspaceId"),
      keyId: sql.placeholder("keyId"),
      userId: sql.placeholder("userId"),
      operation: sql.placeholder("operation"),
      face: sql.placeholder("face"),
      client: sql.placeholder("client"),
      source: sql.placeholder("source"),
      ids: sql.placeholder("ids"),
      outcome: sql.placeholder("outcome"),
      changes: sql.placeholder("changes"),
      recipients: sql.placeholder("recipients"),
      sent: sql.placeholder("sent"),
    })
    .prepare(),
}));

/**
 * Writes the entry of a request with a key, in the transaction of what it did; of a request without one, nothing. A
 * refusal or a hold has an entry if policy asked for it. `now`: epoch ms.
 * @throws PolicyRefusal rate_limited for changes beyond the limit of the key, but for what is taken back
 */
export function addJournalEntry(
  tx: Tx,
  caller: Caller,
  { ids, outcome = "ok", changes = 0, recipients = 0, sent = 0 }: OperationEntry,
  now: number,
): void {
  const { keyId, userId, workspaceId, origin } = caller;
  if (keyId === undefined) return;
  if (!caller.takesBack) requireKeyLimitLeft(tx, caller, "changesPerHour", changes, now);
  statements(tx).put.run({
    at: now,
    workspaceId,
    keyId,
    userId,
    operation: origin?.operation ?? "other",
    face: origin?.face ?? null,
    client: origin?.client ?? null,
    source: origin?.source ?? null,
    ids: ids.slice(0, MOST_IDS),
    outcome,
    changes,
    recipients: origin?.isCounted ? 0 : recipients,
    sent,
  });
}

/** A decision of a person about the operations of a key: to take them back, or to approve a message. */
interface Decision extends Pick<OperationEntry, "ids" | "sent"> {
  operation: string;
  face: Face;
  /** The person; absent for the operator. */
  by?: Pick<Caller, "userId" | "origin"> | undefined;
}

/** Writes the entry of a decision about a key. It counts against no limit. `now`: epoch ms. */
export function addJournalDecision(
  tx: Tx,
  { workspaceId, keyId }: { workspaceId: string; keyId: string },
  { operation, face, by, ids, sent = 0 }: Decision,
  now: number,
): void {
  statements(tx).put.run({
    at: now,
    workspaceId,
    keyId,
    userId: by?.userId ?? null,
    operation,
    face,
    client: null,
    source: by?.origin?.source ?? null,
    ids: ids.slice(0, MOST_IDS),
    outcome: "ok",
    changes: 0,
    recipients: 0,
    sent,
  });
}
