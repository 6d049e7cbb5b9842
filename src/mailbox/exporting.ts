/**
 * Exports all mail of a mailbox, message by message, with its metadata. Messages come in filing order, so that
 * importing them in that order restores the same conversations.
 *
 * Bcc appears as the mailbox's owner may see it (rules: Bcc): complete on messages that they sent, otherwise only the
 * mailbox's own addresses.
 */
import { and, asc, eq, gt, sql } from "drizzle-orm";
import type { EmailAddress } from "../message/address.ts";
import { mailboxes, messageBodies, messages, threads, users } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store } from "../store/store.ts";
import { routeWithin } from "./addresses.ts";
import { labelsOf } from "./labels.ts";
import { composeStored } from "./stored-message.ts";
import type { FilingKind } from "./threading.ts";

const statements = prepared((db) => ({
  owner: db
    .select({ ownerId: mailboxes.ownerId, workspaceId: mailboxes.workspaceId })
    .from(mailboxes)
    .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
    .prepare(),
  page: db
    .select({
      message: messages,
      thread: {
        id: threads.id,
        folder: threads.folder,
        starred: threads.starred,
        snoozedUntil: threads.snoozedUntil,
      },
      headers: messageBodies.headers,
      text: messageBodies.text,
      sentBy: users.email,
    })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .leftJoin(users, eq(users.id, messages.sentBy))
    .where(and(eq(messages.mailboxId, sql.placeholder("mailboxId")), gt(messages.seq, sql.placeholder("after"))))
    .orderBy(asc(messages.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
}));

/** Messages per read; their texts are held in memory. */
const PAGE = 20;

type Row = ReturnType<ReturnType<typeof statements>["page"]["all"]>[number];

/** An exported message. */
export interface ExportedMessage {
  row: Row["message"];
  kind: FilingKind;
  thread: Row["thread"];
  labels: string[];
  /** Sign-in name of the user. */
  sentBy: string | null;
  /** Value of Authentication-Results. */
  results: string | undefined;
  /** Lines end in CRLF. */
  raw: Uint8Array;
}

export async function* exportMailbox(store: Store, mailboxId: string): AsyncGenerator<ExportedMessage> {
  const { db } = store;
  const { ownerId = null, workspaceId = "" } = statements(db).owner.get({ mailboxId }) ?? {};
  const isOwn = ({ email }: EmailAddress): boolean => {
    const route = routeWithin(db, workspaceId, email);
    return route.kind === "mailbox" && route.mailboxId === mailboxId;
  };
  for (let after = 0; ; ) {
    const page = statements(db).page.all({ mailboxId, after, limit: PAGE });
    const last = page.at(-1);
    if (!last) return;
    after = last.message.seq;
    const labels = labelsOf(db, [...new Set(page.map(({ message }) => message.threadSeq))]);
    for (const { message: row, thread, headers, text, sentBy } of page) {
      const isOwners = row.kind !== "received" && row.sentBy !== null && row.sentBy === ownerId;
      const bcc = isOwners ? row.bcc : row.bcc.filter(isOwn);
      yield {
        row,
        thread,
        sentBy,
        // The server's own notices arrived at no address.
        kind: row.kind === "received" && row.receivedOn === null ? "notice" : row.kind,
        labels: labels.get(row.threadSeq) ?? [],
        results: headers.find(([name]) => /^authentication-results$/i.test(name))?.[1],
        raw: await composeStored(store, { id: row.id, seq: row.seq, text }, bcc),
      };
    }
  }
}
