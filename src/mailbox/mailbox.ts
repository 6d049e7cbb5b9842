/**
 * Mail as people see it: one object of functions over the store, the search index and the outbox. What files mail (mta,
 * demo) takes the transaction; what reads or changes it for somebody takes the Caller, whose reach every query starts
 * from. The only writer of threads, messages and what belongs to them.
 */
import { type Caller, notFound } from "../access/caller.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import type { EmailAddress } from "../message/address.ts";
import type { ReadHtml } from "../message/reading.ts";
import type { SearchEngine } from "../search/engine.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { isOthers, localDomain, type Route, routeFor, routeOf, routeWithin } from "./addresses.ts";
import { type BulkResult, createBulk, type Refused } from "./bulk.ts";
import type { ThreadChange } from "./change.ts";
import { snooze, wakeSnoozed } from "./changes.ts";
import { findCorrespondents } from "./correspondents.ts";
import { createDraftChanges, type DraftChanges, type DraftFile } from "./draft-changes.ts";
import {
  type Draft,
  type DraftMark,
  type Due,
  draftsAnswering,
  dueDrafts,
  markedDrafts,
  nextDue,
  readDraft,
  removeDraft,
} from "./drafts.ts";
import { type ExportedMessage, exportMailbox } from "./exporting.ts";
import { createFiling, type Filed, type Filing, holds } from "./filing.ts";
import { hasMessageOfSize } from "./filing-rows.ts";
import { createImporting, isKept, type KeptMessage, type MessageIdentity } from "./importing.ts";
import type { JudgementView } from "./judged.ts";
import { type LabelInUse, labelsInUse } from "./labels.ts";
import { createListing } from "./listing.ts";
import { listMailboxes, mailboxesToList, mailboxIdOf } from "./mailboxes.ts";
import { createMessages, markDelivered } from "./messages.ts";
import type { PreparedMessage } from "./prepare.ts";
import { createHtmlReading, type HtmlReading } from "./reading.ts";
import { createReindexing, type Reindexing } from "./reindexing.ts";
import { type ReplyContext, readReplyContext } from "./reply.ts";
import { deleteDiscarded } from "./retention.ts";
import { sweepBlobs } from "./sweep.ts";
import { createThreads } from "./threading.ts";
import { type Usage, usageOf } from "./usage.ts";
import type {
  AttachmentContent,
  MailboxView,
  MessageFilters,
  MessageSummaryView,
  MessageView,
  ThreadDetailView,
  ThreadFilters,
  ThreadListView,
  ThreadPatch,
  ThreadView,
} from "./views.ts";

export interface Mailbox extends HtmlReading {
  /** Files a message into a mailbox: conversation, index, usage and message.inbound, all in the transaction given. */
  file(tx: Tx, filing: Filing): Filed;
  /** Files a message that was kept elsewhere, as it was kept there; nothing arrives, and nobody is told. */
  fileKept(tx: Tx, kept: KeptMessage): Filed;
  /** All mail of a mailbox, to be kept elsewhere: what its owner may see, in an order to file it in again. */
  exportMail(mailboxId: string): AsyncIterable<ExportedMessage>;
  /** Whether the mailbox has the message: filing it as kept would change nothing. */
  isKept(identity: MessageIdentity): boolean;
  /** Whether it is as good as sure that the mailbox has a message, of which only its Message-ID and bytes are known. */
  isKnown(mailboxId: string, messageId: string, size: number): boolean;
  /** Whether the mailbox has received the message before: filing it would change nothing. */
  holds(mailboxId: string, message: PreparedMessage): boolean;
  /** Where mail of other servers to an address goes. `address` as in RCPT TO, without the angle brackets. */
  route(address: string): Route;
  /** Where mail of a workspace to an address goes. */
  routeFor(workspaceId: string, address: string): Route;
  /** Which mailbox of a workspace has an address, also one that another has taken over with its domain. */
  routeWithin(workspaceId: string, address: string): Route;
  usage(mailboxId: string): Usage;
  /** Whether mail of a workspace to the domain (A-labels, in any case) stays here. */
  isLocal(workspaceId: string, domain: string): boolean;
  /** Whether the domain (A-labels) was verified by another workspace. */
  isOthers(workspaceId: string, domain: string): boolean;
  /** The server of a recipient has accepted the sent message at `now` (epoch ms); the first time counts. */
  markDelivered(tx: Tx, emailId: string, now: number): void;

  listMailboxes(caller: Caller): MailboxView[];
  /** @throws AppError not_found (mailbox), bad_request (cursor, date in `q`) */
  listThreads(caller: Caller, filters: ThreadFilters): Promise<ThreadListView>;
  /** The same over everything but trash and spam, unless a folder is given. */
  search(caller: Caller, filters: ThreadFilters & { q: string }): Promise<ThreadListView>;
  /** @throws AppError not_found */
  getThread(caller: Caller, id: string, options: { html: boolean }): ThreadDetailView;
  /** @throws AppError bad_request, not_found, forbidden, conflict, unprocessable; then nothing has changed */
  update(caller: Caller, id: string, patch: ThreadPatch): ThreadView;
  /** What an answer to a conversation starts from. @throws AppError not_found */
  replyContext(caller: Caller, threadId: string): ReplyContext;
  drafts: MailboxDrafts;
  /** Newest first. @throws AppError not_found (mailbox) */
  listMessages(caller: Caller, filters: MessageFilters): MessageSummaryView[];
  /** @throws AppError not_found */
  getMessage(caller: Caller, id: string, options: { html: boolean }): MessageView;
  /** The message as an RFC 5322 file, rebuilt. @throws AppError not_found */
  getRawMessage(caller: Caller, id: string): Promise<Uint8Array>;
  /** What is attached to a message, to be attached to another. @throws AppError not_found */
  filesOf(caller: Caller, id: string): DraftFile[];
  /** @throws AppError not_found */
  getAttachment(caller: Caller, id: string): AttachmentContent;

  /** Deletes all that is in trash or spam for good, in portions; how many. @throws AppError not_found, forbidden */
  emptyFolder(caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number>;

  /** Changes several, all in one transaction; what is refused is told, and stays. @throws AppError bad_request (labels) */
  changeThreads(caller: Caller, ids: readonly string[], change: ThreadChange): BulkResult;
  /** Takes such a change back, where nothing else changed the same since. @throws AppError not_found */
  undoChange(caller: Caller, undo: string): Omit<BulkResult, "undo">;
  /** Deletes drafts, and what is in trash or spam, for good, in portions; what is refused is told, and stays. */
  deleteThreads(caller: Caller, ids: readonly string[]): Promise<{ deleted: string[]; refused: Refused[] }>;

  /** What a person is offered while they search or label, of one mailbox. @throws AppError not_found (mailbox) */
  listLabels(caller: Caller, mailbox: string, limit: number): LabelInUse[];
  findCorrespondents(caller: Caller, mailbox: string, text: string, limit: number): EmailAddress[];
  /** What a mailbox keeps and may keep. @throws AppError not_found (mailbox) */
  usageFor(caller: Caller, mailbox: string): Usage;
  /** Why a message is in spam, or is not. @throws AppError not_found */
  getJudgement(caller: Caller, id: string): JudgementView;

  reindexing: Reindexing;

  /** Takes a conversation out of the inbox until `until` (epoch ms). @throws AppError not_found, conflict */
  snooze(tx: Tx, threadId: string, until: number): void;
  /** For the scheduler: snoozed conversations return, what was discarded long ago goes, and blobs that nothing names. */
  jobs: readonly Job[];
}

export interface MailboxDrafts extends DraftChanges {
  /** What a draft says, for who may send it. @throws AppError not_found, forbidden, conflict (it is no draft) */
  read(caller: Caller, draftId: string): Draft;
  /** Ids of the drafts that answer a conversation. @throws AppError not_found */
  answering(caller: Caller, threadId: string): string[];
  /** What marks drafts of a mailbox (id, address or alias address) in a list. @throws AppError not_found */
  marked(caller: Caller, mailbox: string): DraftMark[];
  /** Removes a draft that has become something else in this transaction. */
  remove(tx: Tx, draft: Pick<Draft, "reach" | "threadSeq">): void;
  /** Those to be sent by `now`, the earliest first, and when the next one is; epoch ms. */
  due(now: number): (Due & { id: string })[];
  nextDue(): number | null;
}

export interface MailboxParts {
  store: Store;
  engine: SearchEngine;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  options: Options;
  log: Log;
  read: ReadHtml;
}

export function createMailbox({ store, engine, runtime, options, log, read }: MailboxParts): Mailbox {
  /** The id of the one that an id or address names. @throws AppError not_found */
  function reachedMailbox(caller: Caller, mailbox: string): string {
    const [id] = mailboxesToList(store.db, caller, mailboxIdOf(store.db, caller, mailbox)).keys();
    if (id === undefined) throw notFound("mailbox");
    return id;
  }
  return {
    file: createFiling({ engine, options, runtime }),
    fileKept: createImporting({ engine, runtime }),
    exportMail: (mailboxId) => exportMailbox(store, mailboxId),
    isKnown: (mailboxId, messageId, size) => hasMessageOfSize(store.db, mailboxId, messageId, size),
    isKept: (identity) => isKept(store.db, identity),
    holds: (mailboxId, message) => holds(store.db, mailboxId, message),
    route: (address) => routeOf(store.db, address),
    routeFor: (workspaceId, address) => routeFor(store.db, workspaceId, address),
    routeWithin: (workspaceId, address) => routeWithin(store.db, workspaceId, address),
    usage: (mailboxId) => usageOf(store.db, options, mailboxId),
    isLocal: (workspaceId, domain) => localDomain(store.db, workspaceId, domain) !== undefined,
    isOthers: (workspaceId, domain) => isOthers(store.db, workspaceId, domain),
    markDelivered,
    replyContext: (caller, threadId) => readReplyContext(store, caller, threadId),
    drafts: {
      ...createDraftChanges({ engine, runtime }),
      read: (caller, draftId) => readDraft(store.db, caller, draftId),
      answering: (caller, threadId) => draftsAnswering(store.db, caller, threadId),
      marked: (caller, mailbox) => markedDrafts(store.db, reachedMailbox(caller, mailbox)),
      remove: removeDraft,
      due: (now) => dueDrafts(store.db, now),
      nextDue: () => nextDue(store.db),
    },
    listMailboxes: (caller) => listMailboxes(store.db, caller),
    ...createListing({ store, engine }),
    ...createThreads(store, runtime),
    ...createMessages(store),
    ...createHtmlReading({ store, read }),
    ...createBulk({ store, runtime }),
    listLabels: (caller, mailbox, limit) => labelsInUse(store.db, reachedMailbox(caller, mailbox), limit),
    findCorrespondents: (caller, mailbox, text, limit) =>
      findCorrespondents(store.db, reachedMailbox(caller, mailbox), text, limit),
    usageFor: (caller, mailbox) => usageOf(store.db, options, reachedMailbox(caller, mailbox)),
    reindexing: createReindexing(engine),
    snooze,
    jobs: [wakeSnoozed(store), sweepBlobs(store, log), deleteDiscarded(store, options)],
  };
}
