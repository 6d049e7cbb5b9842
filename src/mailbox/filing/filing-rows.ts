/**
 * Writes the rows of a message and its conversation: for filing.ts, which files new mail, and transfer.ts, which files
 * mail kept elsewhere.
 */
import { and, eq, getTableColumns, isNull, sql, type Table } from "drizzle-orm";
import { newId, type Runtime } from "../../base/runtime.ts";
import { settleKeyChanges } from "../../journal/key-changes.ts";
import { type EmailAddress, NO_SENDER } from "../../message/address.ts";
import {
  type AuthVerdicts,
  attachments,
  type DraftAgent,
  drafts,
  type Folder,
  MESSAGES_PER_THREAD,
  mailboxes,
  messageBodies,
  messageOctets,
  messages,
  threadReferences,
  threads,
  type Unfinished,
} from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import type { MailCore } from "../state/mail-core.ts";
import { addMailboxUsage } from "../state/mailboxes.ts";
import { folderOfMessage, moveFollowingMessages } from "../state/message-state.ts";
import type { KeptOctets } from "./keep-octets.ts";
import type { PreparedMessage } from "./prepare.ts";
import { type FilingKind, hasThreadMessageId, THREAD_STATE, type ThreadRow, type ThreadState } from "./threading.ts";

type Placeholder = ReturnType<typeof sql.placeholder>;

/** Maps each name to a placeholder of that name. */
const placeholders = <K extends string>(...names: K[]): Record<K, Placeholder> =>
  Object.fromEntries(names.map((name) => [name, sql.placeholder(name)])) as unknown as Record<K, Placeholder>;

/** The columns of a table, by their names in rows. */
const listColumnNames = <T extends Table>(table: T) =>
  Object.keys(getTableColumns(table)) as (keyof T["_"]["columns"] & string)[];

function prepareStatements(db: Db) {
  const thread = placeholders(...THREAD_STATE);
  const same = (messageId: ReturnType<typeof eq>) =>
    db
      .select({ seq: messages.seq, messageId: messages.id, threadId: threads.id, byKey: messages.byKey })
      .from(messages)
      .innerJoin(threads, eq(threads.seq, messages.threadSeq))
      .where(
        and(
          eq(messages.mailboxId, sql.placeholder("mailboxId")),
          messageId,
          eq(messages.fingerprint, sql.placeholder("fingerprint")),
          eq(messages.kind, sql.placeholder("kind")),
        ),
      )
      .limit(1)
      .prepare();
  return {
    mailbox: db
      .select({ address: mailboxes.address, workspaceId: mailboxes.workspaceId })
      .from(mailboxes)
      .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
      .prepare(),
    same: same(eq(messages.messageId, sql.placeholder("messageId"))),
    sameWithoutId: same(isNull(messages.messageId)),
    messageId: db
      .select({ seq: messages.seq })
      .from(messages)
      .where(
        and(eq(messages.mailboxId, sql.placeholder("mailboxId")), eq(messages.messageId, sql.placeholder("messageId"))),
      )
      .limit(1)
      .prepare(),
    messageOfSize: db
      .select({ seq: messages.seq })
      .from(messages)
      .where(
        and(
          eq(messages.mailboxId, sql.placeholder("mailboxId")),
          eq(messages.messageId, sql.placeholder("messageId")),
          eq(messages.size, sql.placeholder("size")),
          eq(messages.byKey, false),
        ),
      )
      .limit(1)
      .prepare(),
    vouch: db
      .update(messages)
      .set({ byKey: false })
      .where(eq(messages.seq, sql.placeholder("seq")))
      .prepare(),
    insertThread: db
      .insert(threads)
      .values({ ...placeholders("id", "mailboxId", "receivedOn", "starred"), ...thread })
      .returning({ seq: threads.seq })
      .prepare(),
    updateThread: db
      .update(threads)
      // drizzle's types accept placeholders in values() only; set() encodes and fills them alike.
      .set(thread as unknown as Partial<typeof threads.$inferInsert>)
      .where(eq(threads.seq, sql.placeholder("seq")))
      .prepare(),
    insertReference: db
      .insert(threadReferences)
      .values(placeholders("mailboxId", "messageId", "threadSeq"))
      .onConflictDoNothing()
      .prepare(),
    insertMessage: db
      .insert(messages)
      // Passed as text or null: a JSON column would encode null as text.
      .values({ ...placeholders(...listColumnNames(messages)), auth: sql`${sql.placeholder("auth")}` })
      .prepare(),
    insertBody: db
      .insert(messageBodies)
      .values(placeholders(...listColumnNames(messageBodies)))
      .prepare(),
    insertDraft: db
      .insert(drafts)
      .values({
        messageSeq: sql.placeholder("messageSeq"),
        revision: 1,
        answers: sql`(select seq from threads where id = ${sql.placeholder("answers")} and mailbox_id = ${sql.placeholder("mailboxId")})`,
        unfinished: sql.placeholder("unfinished"),
        // Passed as text or null: a JSON column would encode null as text.
        agent: sql`${sql.placeholder("agent")}`,
        writtenBy: sql.placeholder("writtenBy"),
      })
      .prepare(),
    insertOctets: db
      .insert(messageOctets)
      .values({ ...placeholders(...listColumnNames(messageOctets)), hidden: sql`${sql.placeholder("hidden")}` })
      .prepare(),
    insertAttachment: db
      .insert(attachments)
      .values(placeholders(...listColumnNames(attachments)))
      .prepare(),
  };
}

const statements = prepared(prepareStatements);

/** The mailbox to file into. @throws Error if it does not exist */
export function mailboxToFileInto(tx: Tx, mailboxId: string) {
  const mailbox = statements(tx).mailbox.get({ mailboxId });
  if (!mailbox) throw new Error(`there is no mailbox ${mailboxId} to file into`);
  return mailbox;
}

/** The properties by which two copies of one message are recognised. */
export interface Identity {
  mailboxId: string;
  messageId: string | undefined;
  fingerprint: string;
  kind: FilingKind;
}

export const toStoredMessageKind = (kind: FilingKind) => (kind === "notice" ? "received" : kind);

/** Finds an earlier copy of a message by its Message-ID. Undefined for a message that has no Message-ID. */
export const findCopyByMessageId = (db: Db, { kind, ...rest }: Identity) =>
  rest.messageId === undefined ? undefined : statements(db).same.get({ ...rest, kind: toStoredMessageKind(kind) });

/** Finds an earlier copy of a message, also of one without a Message-ID. */
export const findIdenticalMessage = (db: Db, { kind, ...rest }: Identity) =>
  rest.messageId === undefined
    ? statements(db).sameWithoutId.get({ ...rest, kind: toStoredMessageKind(kind) })
    : findCopyByMessageId(db, { kind, ...rest });

export const hasMessageId = (db: Db, mailboxId: string, messageId: string): boolean =>
  statements(db).messageId.get({ mailboxId, messageId }) !== undefined;

/** Answers for a message that was filed before; one that a key had filed counts as any other once it comes in another way. */
export function acknowledgeDuplicate(
  tx: Tx,
  { byKey, ...same }: NonNullable<ReturnType<typeof findCopyByMessageId>>,
  isByKey = false,
) {
  if (byKey && !isByKey) statements(tx).vouch.run({ seq: same.seq });
  return { ...same, duplicate: true };
}

/** True if the mailbox has a message with that Message-ID and size, received or sent, that no key had filed. */
export const hasMessageOfSize = (db: Db, mailboxId: string, messageId: string, size: number): boolean =>
  statements(db).messageOfSize.get({ mailboxId, messageId, size }) !== undefined;

/** The conversation that a message starts or continues. */
export interface Conversation {
  joined: ThreadRow | undefined;
  /** Includes the message. */
  state: ThreadState;
  starred: boolean;
}

/** The properties of a new draft that other messages lack. */
export interface NewDraft {
  /** Id of the conversation that it replies to. */
  answers?: string;
  unfinished?: Unfinished;
  agent?: DraftAgent;
  /** Id of the API key that wrote it. */
  writtenBy?: string;
}

/** Recipients of a draft that has no unfinished ones. */
const FINISHED: Unfinished = { to: "", cc: "", bcc: "" };

/** The stored properties of a message besides its content. */
export interface MessageFacts {
  mailboxId: string;
  workspaceId: string;
  kind: FilingKind;
  receivedOn: string;
  read: boolean;
  /** Epoch ms, as are the next two. */
  date: number;
  filedAt: number;
  deliveredAt?: number | undefined;
  bcc?: readonly EmailAddress[] | undefined;
  auth?: AuthVerdicts | undefined;
  listSigner?: string | undefined;
  sentBy?: string | undefined;
  /** See messages.byKey. */
  byKey?: boolean | undefined;
  /** Properties of a draft; absent for other messages. */
  draft?: NewDraft | undefined;
  /** The message becomes searchable soon after the commit, not with it. */
  indexLater?: boolean | undefined;
  /** The draft is a held message, which nobody may change. */
  held?: boolean | undefined;
  /** Ids that a held message keeps when it is sent. */
  ids?: { message: string; thread: string } | undefined;
  /** Default: the one that the conversation's implies. */
  ownFolder?: Folder | undefined;
  /** Further Message-IDs by which later mail finds the conversation. */
  references?: readonly string[];
}

export interface Written {
  /** messages.seq and threads.seq. */
  seq: number;
  threadSeq: number;
  messageId: string;
  threadId: string;
}

/** Writes a message and updates its conversation, index and usage. */
export function writeFiledMessage(
  { engine, runtime }: MailCore,
  tx: Tx,
  message: PreparedMessage,
  conversation: Conversation,
  facts: MessageFacts,
): Written {
  const { mailboxId, workspaceId } = facts;
  const { seq: threadSeq, id: threadId } = writeThread(runtime, tx, conversation, facts);
  const { state } = conversation;
  if (facts.kind !== "draft") addReferences(tx, message, mailboxId, threadSeq, facts.references ?? []);
  const id = facts.ids?.message ?? newId(runtime, "msg");
  const seq = threadSeq * MESSAGES_PER_THREAD + state.nextOrdinal - 1;
  insertMessage(runtime, tx, message, { id, seq, threadSeq, folder: state.folder }, facts);
  if (facts.kind === "draft" && !facts.held) insertDraft(tx, facts, seq);
  if (facts.indexLater) engine.addLater(tx, seq);
  else engine.add(tx, seq, { workspaceId, mailboxId }, message.index);
  addMailboxUsage(tx, mailboxId, message.size);
  return { seq, threadSeq, messageId: id, threadId };
}

function writeThread(
  runtime: Runtime,
  tx: Tx,
  { joined, state, starred }: Conversation,
  { mailboxId, receivedOn, ids }: MessageFacts,
) {
  if (joined) {
    statements(tx).updateThread.run({ ...state, seq: joined.seq });
    const moves = state.folder !== joined.folder;
    if (moves) moveFollowingMessages(tx, joined.seq, state.folder);
    if (moves || state.snoozedUntil !== joined.snoozedUntil) settleKeyChanges(tx, joined.seq, "folder", "mail");
    return joined;
  }
  const id = ids?.thread ?? newId(runtime, "thr");
  const inserted = statements(tx).insertThread.get({ ...state, id, mailboxId, receivedOn, starred });
  if (!inserted) throw new Error("inserting a conversation returned no row");
  return { id, seq: inserted.seq };
}

/** The columns of a message that its content decides; those of a draft change with it. */
export const contentRow = (message: PreparedMessage) => ({
  messageId: message.messageId ?? null,
  inReplyTo: message.inReplyTo ?? null,
  from: message.from ?? NO_SENDER,
  to: message.to,
  cc: message.cc,
  replyTo: message.replyTo,
  subject: message.subject,
  snippet: message.snippet,
  fingerprint: message.fingerprint,
});

/** The columns of a message's body. */
export const bodyRow = (message: PreparedMessage) => ({
  headers: message.headers,
  text: message.text,
  html: message.html ?? null,
  htmlBytes: message.htmlBytes ?? null,
  htmlSource: packed(message.htmlSource),
  sanitizer: message.sanitizer,
  seenText: packed(message.seenText),
  seenHidden: message.seenHidden,
  seenVersion: message.seenVersion,
});

/** The columns of a message's octets. */
const octetsRow = ({ skeleton, digest, servedDigest, hidden, ...octets }: KeptOctets) => ({
  size: octets.size,
  digest: packed(digest),
  servedDigest: packed(servedDigest),
  // Passed as text or null: a JSON column would encode null as text.
  hidden: hidden.length === 0 ? null : JSON.stringify(hidden),
  envelope: octets.envelope ?? null,
  structure: octets.structure ?? null,
  skeleton: skeleton instanceof Uint8Array ? packed(skeleton) : null,
  blob: skeleton instanceof Uint8Array ? null : skeleton.blob,
});

/** Wraps the bytes, without a copy, in the type that drizzle wants. */
const packed = (bytes: Uint8Array | undefined): Buffer | null =>
  bytes === undefined ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** Where a message is put. */
interface FilingTarget {
  id: string;
  seq: number;
  threadSeq: number;
  /** Folder of the message's conversation. */
  folder: Folder;
}

/** The columns of a message. `auth` is text or null. */
function messageRow(message: PreparedMessage, { id, seq, threadSeq, folder }: FilingTarget, facts: MessageFacts) {
  const kind = toStoredMessageKind(facts.kind);
  return {
    ...contentRow(message),
    id,
    seq,
    threadSeq,
    mailboxId: facts.mailboxId,
    kind,
    folder: facts.ownFolder ?? folderOfMessage(kind, folder),
    read: facts.read,
    flagged: false,
    date: facts.date,
    filedAt: facts.filedAt,
    deliveredAt: facts.deliveredAt ?? null,
    bcc: facts.bcc ?? message.bcc,
    receivedOn: facts.kind === "received" ? facts.receivedOn : null,
    sentBy: facts.sentBy ?? null,
    size: message.size,
    hasAttachments: message.attachments.length > 0,
    auth: facts.auth === undefined ? null : JSON.stringify(facts.auth),
    listSigner: facts.listSigner ?? null,
    byKey: facts.byKey ?? false,
    apart: false,
  };
}

function insertMessage(
  runtime: Runtime,
  tx: Tx,
  message: PreparedMessage,
  target: FilingTarget,
  facts: MessageFacts,
): void {
  statements(tx).insertMessage.run(messageRow(message, target, facts));
  statements(tx).insertBody.run({ messageSeq: target.seq, ...bodyRow(message) });
  // The files of a draft that is still written are not in its octets.
  if (message.octets && !facts.draft) insertKeptOctets(tx, target.seq, message.octets);
  message.attachments.forEach((attachment, position) => {
    statements(tx).insertAttachment.run({
      ...attachment,
      id: newId(runtime, "att"),
      messageSeq: target.seq,
      position,
      contentId: attachment.contentId ?? null,
      parameters: attachment.parameters ?? [],
      unnamed: attachment.unnamed ?? false,
      alternative: attachment.alternative ?? false,
    });
  });
}

/** Writes the octets of a message (messages.seq). */
export const insertKeptOctets = (tx: Tx, messageSeq: number, octets: KeptOctets): void =>
  void statements(tx).insertOctets.run({ messageSeq, ...octetsRow(octets) });

/** Writes the row that lets a draft be opened and changed. */
function insertDraft(tx: Tx, { mailboxId, draft = {} }: MessageFacts, messageSeq: number): void {
  const { answers = null, unfinished = FINISHED, agent, writtenBy = null } = draft;
  const given = { answers, unfinished, agent: agent === undefined ? null : JSON.stringify(agent), writtenBy };
  statements(tx).insertDraft.run({ messageSeq, mailboxId, ...given });
}

/**
 * Stores the Message-IDs by which later mail finds the conversation, except those of its own messages, which their rows
 * tell. Drafts are excluded: nobody can reply to one, and it may reply to the same message as other mail.
 */
function addReferences(
  tx: Tx,
  message: PreparedMessage,
  mailboxId: string,
  threadSeq: number,
  further: readonly string[],
): void {
  for (const messageId of new Set([message.inReplyTo, ...message.references, ...further])) {
    if (messageId === undefined || messageId === message.messageId) continue;
    if (hasThreadMessageId(tx, { seq: threadSeq, mailboxId }, messageId)) continue;
    statements(tx).insertReference.run({ mailboxId, messageId, threadSeq });
  }
}
