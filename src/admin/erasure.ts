/**
 * Removing a person for good: with them their mailboxes, the mail in them, its files and words in the search index, what
 * the mailboxes learned, what they sent and what became of it, and what was told of any of it.
 *
 * What stays: mail that others have from them or sent them, in those mailboxes; addresses that are suppressed for their
 * workspace; the log; and the backups made before, until they are replaced.
 *
 * Deleted rows are overwritten (secure_delete) and the search index is merged so that it forgets their words, all in short
 * transactions: a server that runs goes on. What SQLite left in unused parts of pages as it moved rows about, long ago
 * too, only goes when the database is written anew (`compact`), and nothing else can be written meanwhile. Cut short, it
 * is asked for once more.
 */
import { and, count, eq, gt, inArray, ne } from "drizzle-orm";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { deleteEventsOf } from "../events/outbox.ts";
import { sweepUnnamed } from "../mailbox/sweep.ts";
import { deleteOutboundOf } from "../outbound/queue.ts";
import { deleteSteps } from "../outbound/trace-log.ts";
import type { SearchEngine } from "../search/engine.ts";
import { mailboxes, messages } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import type { People } from "./people.ts";

export interface Erasure {
  /** Addresses of the mailboxes. */
  mailboxes: string[];
  messages: number;
  /** Of the mail, as the quota counts it. */
  bytes: number;
}

export interface Erased extends Erasure {
  /** Messages that they had sent. */
  sent: number;
  /** Recipients whose mail was still waiting to be sent, and is not. */
  givenUp: number;
  events: number;
  /** Files removed; undefined while a backup is made, after which the daily sweep has them. */
  files: number | undefined;
}

export interface ErasureParts {
  store: Store;
  people: Pick<People, "removeUser" | "removeMailbox" | "listMailboxes" | "requireRemovable">;
  engine: SearchEngine;
  runtime: Pick<Runtime, "now" | "setTimer">;
}

const PORTION = 200;
/** Between two portions: others write too, ms. */
const PAUSE_MS = 5;

export function createErasure({ store, people, engine, runtime }: ErasureParts) {
  const { db } = store;
  const rest = () => pause(runtime, PAUSE_MS);
  const owned = (userId: string) => people.listMailboxes().filter(({ ownerId }) => ownerId === userId);

  /** What would be erased. @throws AppError not_found, conflict for the last owner of a workspace */
  function survey(userId: string): Erasure {
    store.transact((tx) => people.requireRemovable(tx, userId));
    const found = owned(userId);
    const ids = found.map(({ id }) => id);
    return {
      mailboxes: found.map(({ address }) => address),
      messages: db.select({ n: count() }).from(messages).where(inArray(messages.mailboxId, ids)).get()?.n ?? 0,
      bytes: found.reduce((sum, { usedBytes }) => sum + usedBytes, 0),
    };
  }

  /** @throws AppError as survey; then nothing is erased */
  async function erase(userId: string, { compact }: { compact: boolean }): Promise<Erased> {
    const erased: Erased = { ...survey(userId), sent: 0, givenUp: 0, events: 0, files: undefined };
    const sqlite = db.$client;
    sqlite.exec("PRAGMA secure_delete = ON");
    try {
      for (const { id } of owned(userId)) {
        await people.removeMailbox(id, async () => {
          await forgetSent(id, erased);
          await forgetTold(id, erased);
        });
      }
      store.transact((tx) => people.removeUser(tx, userId));
      erased.files = await sweepUnnamed(store, runtime.now());
      for (let more = engine.purge(true); more; more = engine.purge(false)) await rest();
      if (compact) sqlite.exec("VACUUM");
      // Someone who reads may keep it from being emptied; it is written over all the same.
      sqlite.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      return erased;
    } finally {
      sqlite.exec("PRAGMA secure_delete = OFF");
    }
  }

  /** What the mailbox sent: queue, outcomes, and what was told of them. */
  async function forgetSent(mailboxId: string, erased: Erased): Promise<void> {
    for (;;) {
      const gone = store.transact((tx) => {
        const portion = deleteOutboundOf(tx, mailboxId, PORTION);
        erased.events += deleteEventsOf(tx, portion.emailIds);
        deleteSteps(tx, portion.messageIds);
        return portion;
      });
      if (gone.emailIds.length === 0) return;
      erased.sent += gone.emailIds.length;
      erased.givenUp += gone.unsettled;
      await rest();
    }
  }

  /** What was told of the messages in the mailbox, and how they came, unless another mailbox has them too. */
  async function forgetTold(mailboxId: string, erased: Erased): Promise<void> {
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
        erased.events += deleteEventsOf(
          tx,
          rows.map(({ id }) => id),
        );
        const keys = rows.map(({ id, messageId }) => messageId ?? id);
        deleteSteps(
          tx,
          keys.filter((key) => !isElsewhere(tx, mailboxId, key)),
        );
      });
      await rest();
    }
  }

  /** From the mailboxes on, each of which has an index by Message-ID: a cross join keeps its order in SQLite. */
  const isElsewhere = (tx: Tx, mailboxId: string, messageId: string): boolean =>
    tx
      .select({ seq: messages.seq })
      .from(mailboxes)
      .crossJoin(messages)
      .where(and(ne(mailboxes.id, mailboxId), eq(messages.mailboxId, mailboxes.id), eq(messages.messageId, messageId)))
      .limit(1)
      .get() !== undefined;

  return { survey, erase };
}
