/**
 * Erases a person: their mailboxes with the mail, its files, its words in the search index and what the junk filter
 * learned from it, the mail they sent with its outcomes, the events about all of it, the journal of their keys, and the
 * programs that they alone let in.
 *
 * It keeps mail to and from them in other people's mailboxes, the suppressed addresses of their workspace, the log, the ids
 * that the journal of others' keys has, and earlier backups until they are replaced.
 *
 * SQLite overwrites deleted rows (secure_delete), and the search index is merged so that it drops their words. All of
 * this happens in short transactions, so a running server goes on. Only rewriting the database (`compact`) removes
 * remains in unused parts of pages, where SQLite left them when it moved rows; other writes wait meanwhile. An erasure
 * that was cut short must be asked for again.
 */
import { and, count, eq, gt, inArray, ne } from "drizzle-orm";
import { revokePersonKeys } from "../access/credentials.ts";
import { pause } from "../base/pause.ts";
import { deleteMessageEvents } from "../events/outbox.ts";
import { forgetKeyJournal } from "../journal/retention.ts";
import { sweepUnnamedBlobs } from "../mailbox/changing/removal.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { forgetPersonalOAuthClients } from "../oauth/clients.ts";
import { deleteOutboundMessages } from "../outbound/queue.ts";
import { deleteTraceSteps } from "../outbound/trace-log.ts";
import { apiKeys, mailboxes, messages, users } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { listMailboxes } from "./mailbox-admin.ts";
import { removeUser, requireRemovableUser } from "./people.ts";
import { removeMailbox } from "./removals.ts";

export interface Erasure {
  /** Addresses of the mailboxes. */
  mailboxes: string[];
  messages: number;
  /** Size of the mail, as the quota counts it. */
  bytes: number;
}

export interface Erased extends Erasure {
  /** Messages that the mailboxes had sent. */
  sent: number;
  /** Recipients whose mail was still unsent, and is now given up. */
  givenUp: number;
  events: number;
  /** Files removed; undefined when a backup is under way, and then the daily sweep removes them later. */
  files: number | undefined;
}

const PORTION = 200;
/** Pause between two portions, ms, so that other writers get the lock. */
const PAUSE_MS = 5;

const rest = ({ runtime }: MailCore) => pause(runtime, PAUSE_MS);

const owned = (core: MailCore, userId: string) => listMailboxes(core).filter(({ ownerId }) => ownerId === userId);

/** Counts what an erasure would remove. @throws AppError not_found, conflict for the last owner of a workspace */
export function previewErasure(core: MailCore, userId: string): Erasure {
  const { store, db } = core;
  store.transact((tx) => requireRemovableUser(tx, userId));
  const found = owned(core, userId);
  const ids = found.map(({ id }) => id);
  return {
    mailboxes: found.map(({ address }) => address),
    messages: db.select({ n: count() }).from(messages).where(inArray(messages.mailboxId, ids)).get()?.n ?? 0,
    bytes: found.reduce((sum, { usedBytes }) => sum + usedBytes, 0),
  };
}

/** Erases a person. @throws AppError as survey; then nothing is erased */
export async function erasePerson(core: MailCore, userId: string, { compact }: { compact: boolean }): Promise<Erased> {
  const { db, store, runtime, engine } = core;
  const erased: Erased = { ...previewErasure(core, userId), sent: 0, givenUp: 0, events: 0, files: undefined };
  db.run("PRAGMA secure_delete = ON");
  try {
    for (const { id } of owned(core, userId)) {
      await removeMailbox(core, id, async () => {
        await forgetSent(core, id, erased);
        await forgetEvents(core, id, erased);
      });
    }
    await forgetKeys(core, userId);
    store.transact((tx) => {
      forgetPersonalOAuthClients(tx, userId);
      removeUser(tx, userId);
    });
    erased.files = await sweepUnnamedBlobs(store, runtime.now());
    for (let more = engine.purge(true); more; more = engine.purge(false)) await rest(core);
    if (compact) db.run("VACUUM");
    // A reader may keep the log from being truncated; SQLite then overwrites it later.
    db.run("PRAGMA wal_checkpoint(TRUNCATE)");
    return erased;
  } finally {
    db.run("PRAGMA secure_delete = OFF");
  }
}

/** Ends the person's keys and deletes their journal. */
async function forgetKeys(core: MailCore, userId: string): Promise<void> {
  const { store, runtime, db } = core;
  store.transact((tx) => void revokePersonKeys(tx, userId, runtime.now()));
  const keys = db
    .select({ id: apiKeys.id, workspaceId: users.workspaceId })
    .from(apiKeys)
    .innerJoin(users, eq(users.id, apiKeys.userId))
    .where(eq(apiKeys.userId, userId))
    .all();
  for (const { id, workspaceId } of keys) {
    while (store.transact((tx) => forgetKeyJournal(tx, workspaceId, id))) await rest(core);
  }
}

/** Deletes the mailbox's outbound mail: queue entries, outcomes, events and trace steps. */
async function forgetSent(core: MailCore, mailboxId: string, erased: Erased): Promise<void> {
  for (;;) {
    const gone = core.store.transact((tx) => {
      const portion = deleteOutboundMessages(tx, mailboxId, PORTION);
      erased.events += deleteMessageEvents(tx, portion.emailIds);
      deleteTraceSteps(tx, portion.messageIds);
      return portion;
    });
    if (gone.emailIds.length === 0) return;
    erased.sent += gone.emailIds.length;
    erased.givenUp += gone.unsettled;
    await rest(core);
  }
}

/**
 * Deletes the events about the mailbox's messages, and the trace of their arrival unless another mailbox has them,
 * too.
 */
async function forgetEvents(core: MailCore, mailboxId: string, erased: Erased): Promise<void> {
  const { db, store } = core;
  for (let after = 0; ; ) {
    const rows = db
      .select({ seq: messages.seq, id: messages.id, messageId: messages.messageId })
      .from(messages)
      .where(and(eq(messages.mailboxId, mailboxId), gt(messages.seq, after)))
      .orderBy(messages.seq)
      .limit(PORTION)
      .all();
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.seq;
    store.transact((tx) => {
      erased.events += deleteMessageEvents(
        tx,
        rows.map(({ id }) => id),
      );
      const keys = rows.map(({ id, messageId }) => messageId ?? id);
      deleteTraceSteps(
        tx,
        keys.filter((key) => !isElsewhere(tx, mailboxId, key)),
      );
    });
    await rest(core);
  }
}

/**
 * Starts from the mailboxes, since messages are indexed by mailbox and Message-ID: SQLite keeps the order of a cross
 * join.
 */
const isElsewhere = (tx: Tx, mailboxId: string, messageId: string): boolean =>
  tx
    .select({ seq: messages.seq })
    .from(mailboxes)
    .crossJoin(messages)
    .where(and(ne(mailboxes.id, mailboxId), eq(messages.mailboxId, mailboxes.id), eq(messages.messageId, messageId)))
    .limit(1)
    .get() !== undefined;
