/**
 * Choices of people about mail that they received: to leave its list, always see the images of its sender, answer its
 * invitation. The only writer of left_lists, image_senders and invitation_answers.
 */
import { and, asc, count, eq, sql } from "drizzle-orm";
import { type Caller, findReach, outOfReachError, type Reach } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { type EmailAddress, normalizeAddress } from "../../message/address.ts";
import { parseReferences } from "../../message/message-id.ts";
import {
  type Folder,
  imageSenders,
  invitationAnswers,
  leftLists,
  messageBodies,
  messages,
  threads,
} from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";

/** A received message, as far as actions on it need it. */
export interface ReceivedMessage {
  reach: Reach;
  threadId: string;
  folder: Folder;
  /** Where a mail app moved it, out of its conversation. */
  apartIn: "trash" | "spam" | undefined;
  from: EmailAddress;
  /** The address at which it arrived. */
  receivedOn: string;
  messageId: string | undefined;
  /** Oldest first. */
  references: string[];
  headers: readonly (readonly [name: string, value: string])[];
  /** The From address in one spelling, if DMARC proved its domain and the message is not in spam. */
  provenSender: string | undefined;
  /** True if a DKIM signature covers both fields of RFC 8058. */
  isListSigned: boolean;
}

/** Most senders whose images a person always sees. */
const MOST_IMAGE_SENDERS = 1_000;

const statements = prepared((db) => ({
  one: db
    .select({
      kind: messages.kind,
      mailboxId: messages.mailboxId,
      threadId: threads.id,
      folder: messages.folder,
      threadFolder: threads.folder,
      from: messages.from,
      receivedOn: messages.receivedOn,
      messageId: messages.messageId,
      auth: messages.auth,
      listSigner: messages.listSigner,
      headers: messageBodies.headers,
    })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
  leftAt: db
    .select({ leftAt: leftLists.leftAt })
    .from(leftLists)
    .where(and(eq(leftLists.mailboxId, sql.placeholder("mailboxId")), eq(leftLists.list, sql.placeholder("list"))))
    .prepare(),
  isTrusted: db
    .select({ sender: imageSenders.sender })
    .from(imageSenders)
    .where(and(eq(imageSenders.userId, sql.placeholder("userId")), eq(imageSenders.sender, sql.placeholder("sender"))))
    .prepare(),
}));

/** Finds a received message. Undefined for a message that was sent, or that the server wrote. @throws AppError not_found */
export function receivedMessage(db: Db, caller: Caller, id: string): ReceivedMessage | undefined {
  const found = statements(db).one.get({ id });
  const reach = found && findReach(db, caller, found.mailboxId);
  if (!found || !reach) throw outOfReachError("message");
  const { kind, threadId, folder, threadFolder, from, receivedOn, messageId, auth, listSigner, headers } = found;
  if (kind !== "received" || receivedOn === null) return undefined;
  const isProven = auth?.dmarc === "pass" && folder !== "spam";
  return {
    reach,
    threadId,
    folder,
    apartIn: folder !== threadFolder && (folder === "trash" || folder === "spam") ? folder : undefined,
    from,
    receivedOn,
    messageId: messageId ?? undefined,
    references: parseReferences(
      headers.flatMap(([name, value]) => (name.toLowerCase() === "references" ? value : [])).join(" "),
    ),
    headers,
    provenSender: isProven ? normalizeAddress(from.email) : undefined,
    isListSigned: listSigner !== null,
  };
}

/** When the mailbox left the list, epoch ms. */
export const findMailingListLeaveTime = (db: Db, mailboxId: string, list: string): number | undefined =>
  statements(db).leftAt.get({ mailboxId, list })?.leftAt;

export function noteMailingListLeft(tx: Tx, left: { mailboxId: string; list: string; leftAt: number }): void {
  tx.insert(leftLists)
    .values(left)
    .onConflictDoUpdate({ target: [leftLists.mailboxId, leftLists.list], set: { leftAt: left.leftAt } })
    .run();
}

/** True if a person always sees the images of that sender. */
export const isImageSenderTrusted = (db: Db, userId: string, sender: string): boolean =>
  statements(db).isTrusted.get({ userId, sender }) !== undefined;

/** @throws AppError conflict if they have too many */
export function trustImages(tx: Tx, { userId, sender, now }: { userId: string; sender: string; now: number }): void {
  const had = tx.select({ count: count() }).from(imageSenders).where(eq(imageSenders.userId, userId)).get();
  if ((had?.count ?? 0) >= MOST_IMAGE_SENDERS) {
    throw new AppError(
      "conflict",
      `Images are shown for ${MOST_IMAGE_SENDERS} senders already: remove some in the settings`,
    );
  }
  tx.insert(imageSenders).values({ userId, sender, createdAt: now }).onConflictDoNothing().run();
}

export function distrustImages(tx: Tx, userId: string, sender: string): void {
  tx.delete(imageSenders)
    .where(and(eq(imageSenders.userId, userId), eq(imageSenders.sender, sender)))
    .run();
}

export const listImageSenders = (db: Db, userId: string): string[] =>
  db
    .select({ sender: imageSenders.sender })
    .from(imageSenders)
    .where(eq(imageSenders.userId, userId))
    .orderBy(asc(imageSenders.sender))
    .all()
    .map(({ sender }) => sender);

/** How a mailbox answered an invitation, or an earlier version of it. */
export type StoredAnswer = Pick<typeof invitationAnswers.$inferSelect, "answer" | "sequence" | "answeredAt">;

/** The event to which an answer belongs. `occurrence`: empty for the whole series. */
export type AnsweredEvent = Pick<typeof invitationAnswers.$inferSelect, "mailboxId" | "uid" | "occurrence">;

export const findInvitationAnswer = (db: Db, { mailboxId, uid, occurrence }: AnsweredEvent): StoredAnswer | undefined =>
  db
    .select({
      answer: invitationAnswers.answer,
      sequence: invitationAnswers.sequence,
      answeredAt: invitationAnswers.answeredAt,
    })
    .from(invitationAnswers)
    .where(
      and(
        eq(invitationAnswers.mailboxId, mailboxId),
        eq(invitationAnswers.uid, uid),
        eq(invitationAnswers.occurrence, occurrence),
      ),
    )
    .get();

export function noteInvitationAnswer(tx: Tx, event: AnsweredEvent, answer: StoredAnswer): void {
  const { mailboxId, uid, occurrence } = invitationAnswers;
  tx.insert(invitationAnswers)
    .values({ ...event, ...answer })
    .onConflictDoUpdate({ target: [mailboxId, uid, occurrence], set: answer })
    .run();
}
