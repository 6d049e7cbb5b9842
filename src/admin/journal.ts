/**
 * The journal of a key and its undo (rules: Journal, Undo), for the key's person, the admins of its workspace, and the
 * operator. A key that is gone with its person keeps its journal.
 */
import { and, asc, desc, eq, gte, sql } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import {
  countSentByKey,
  findJournalSubject,
  type JournalEntry,
  type JournalPage,
  type JournalSubject,
  listJournal,
  maySeeJournal,
  type SentByKey,
} from "../journal/journal-list.ts";
import { getKeyChangesKeptSince } from "../journal/retention.ts";
import type { LeftReason, Undoing, Undone } from "../mailbox/changing/undo.ts";
import { undoKeyChanges } from "../mailbox/changing/undo.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { apiKeys, mailboxes, users } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

export type { JournalEntry, LeftReason };

/** Result of an undo, or of a preview of one. */
export interface UndoReport extends Undone {
  /** Epoch ms. */
  since: number;
  /** False if the journal is not kept for that long: what was done before is not known any more. */
  reachesBack: boolean;
  /** Mail that the key sent since then and that cannot be taken back. */
  sent: SentByKey;
  /** Mailboxes that the key has set to expire since then. Their admins take the expiry away. */
  ended: { mailboxes: number; latest: EndedMailbox[] };
}

export interface EndedMailbox {
  id: string;
  address: string;
  /** Epoch ms. */
  expiresAt: number;
}

/** Ended mailboxes that a report names. */
const MOST_ENDED = 100;

/** The mailboxes whose end is of that key, set since a time; the latest first. */
function endedBy(db: Db, { workspaceId, keyId }: JournalSubject, since: number): UndoReport["ended"] {
  const all = db
    .select({ id: mailboxes.id, address: mailboxes.address, expiresAt: sql<number>`${mailboxes.expiresAt}` })
    .from(mailboxes)
    .where(and(eq(mailboxes.workspaceId, workspaceId), eq(mailboxes.endedBy, keyId), gte(mailboxes.endedAt, since)))
    .orderBy(desc(mailboxes.endedAt), asc(mailboxes.id))
    .all();
  return { mailboxes: all.length, latest: all.slice(0, MOST_ENDED) };
}

/**
 * Finds a key, also one that is revoked or gone. `by`: for that person; the operator may see all.
 * @throws AppError not_found, forbidden
 */
export function getJournalSubject(db: Db, keyId: string, by?: Caller): JournalSubject {
  const known = db
    .select({ userId: apiKeys.userId, workspaceId: users.workspaceId })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(eq(apiKeys.id, keyId))
    .get();
  const subject = known ? { ...known, keyId } : findJournalSubject(db, keyId);
  if (!subject || (by && by.workspaceId !== subject.workspaceId)) {
    throw new AppError("not_found", `there is no key ${keyId}`);
  }
  if (by && !maySeeJournal(by, subject)) {
    throw new AppError("forbidden", "Only the person of a key and the admins of the workspace may see its journal");
  }
  return subject;
}

/** A page of entries, newest first; `since` is epoch ms, by default the beginning. */
export const listEntries = (
  { store }: MailCore,
  subject: JournalSubject,
  { since = 0, ...page }: JournalPage & { since?: number },
) => listJournal(store.db, { ...subject, since }, page);

/**
 * Takes back what the key did to conversations since a time (epoch ms), or with `dryRun` tells what that would be.
 * Rejects with AppError bad_request for a time to come, and with what `person` throws.
 */
export async function takeBackKeyChanges(
  core: MailCore,
  subject: JournalSubject,
  since: number,
  undoing: Undoing,
): Promise<UndoReport> {
  const { store, wake } = core;
  const wanted = { ...subject, since };
  const sent = countSentByKey(store.db, wanted);
  const undone = await undoKeyChanges(core, wanted, undoing);
  if (undone.changes > 0 && !undoing.dryRun) wake("wake-snoozed");
  const reachesBack = since >= getKeyChangesKeptSince(core);
  return { ...undone, since, reachesBack, sent, ended: endedBy(store.db, subject, since) };
}
