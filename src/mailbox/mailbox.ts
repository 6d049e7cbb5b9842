/**
 * The mailbox: one object of functions over the store, the search index and the outbox. Filing (inbound, demo) takes
 * the transaction; reading or changing for somebody takes the Caller, whose reach limits every query. The only writer
 * of threads, messages and their dependent tables.
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
import {
  isVerifiedElsewhere,
  localDomain,
  type MailboxRoute,
  type Route,
  routeFor,
  routeOf,
  routeWithin,
  stillReaches,
} from "./addresses.ts";
import { snooze, type ThreadChange, wakeSnoozed } from "./change.ts";
import { findCorrespondents } from "./correspondents.ts";
import {
  createDraftChanges,
  type Draft,
  type DraftChanges,
  type DraftFile,
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
import { type Filed, type Filing, fileMessage, hasReceived } from "./filing.ts";
import { hasMessageOfSize } from "./filing-rows.ts";
import { fileKept, isKept, type KeptMessage, type MessageIdentity } from "./importing.ts";
import type { ClassificationView } from "./junk/classification.ts";
import { type LabelInUse, labelsInUse } from "./labels.ts";
import { createListing } from "./listing.ts";
import { listMailboxes, mailboxesInReach, mailboxIdOf } from "./mailboxes.ts";
import {
  filesOf,
  getAttachment,
  getClassification,
  getMessage,
  getRawMessage,
  listMessages,
  markDelivered,
} from "./messages.ts";
import type { PreparedMessage } from "./prepare.ts";
import { createHtmlReading, type HtmlReading } from "./reading.ts";
import { createReindexing, type Reindexing } from "./reindexing.ts";
import { type ReplyContext, readReplyContext } from "./reply.ts";
import { deleteDiscarded } from "./retention.ts";
import { sweepBlobs } from "./sweep.ts";
import {
  type BulkResult,
  createUndoableChanges,
  deleteThreads,
  emptyFolder,
  getThread,
  type Refused,
  updateThread,
} from "./threads.ts";
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
  /** Files a message into a mailbox: conversation, index, usage and message.inbound, in the given transaction. */
  file(tx: Tx, filing: Filing): Filed;
  /** Files a message that was kept elsewhere in its former state; there is no event. */
  fileKept(tx: Tx, kept: KeptMessage): Filed;
  /** Exports all mail of a mailbox that its owner may see, in an order in which it can be filed again. */
  exportMail(mailboxId: string): AsyncIterable<ExportedMessage>;
  /** True if the mailbox already has the message, so that fileKept would change nothing. */
  isKept(identity: MessageIdentity): boolean;
  /** True if the mailbox almost certainly has a message, judging by its Message-ID and size only. */
  isKnown(mailboxId: string, messageId: string, size: number): boolean;
  /** True if the mailbox has received the message before, so that filing it would change nothing. */
  hasReceived(mailboxId: string, message: PreparedMessage): boolean;
  /** Routes mail from other servers. `address` as in RCPT TO, without the angle brackets. */
  route(address: string): Route;
  /** Whether a route of mail from other servers still stands: the mailbox has not gone or expired, and its workspace has the domain. */
  stillReaches(route: MailboxRoute): boolean;
  /** Routes mail of a workspace. */
  routeFor(workspaceId: string, address: string): Route;
  /**
   * Routes within one workspace, including expired mailboxes and addresses in a domain that another one has taken over.
   */
  routeWithin(workspaceId: string, address: string): Route;
  usage(mailboxId: string): Usage;
  /** True if mail of a workspace to the domain (A-labels, in any case) is delivered locally. */
  isLocal(workspaceId: string, domain: string): boolean;
  /** True if the domain (A-labels) was verified by another workspace. */
  isVerifiedElsewhere(workspaceId: string, domain: string): boolean;
  /** Records that a recipient's server accepted the sent message at `now` (epoch ms). The first call counts. */
  markDelivered(tx: Tx, emailId: string, now: number): void;

  listMailboxes(caller: Caller): MailboxView[];
  /** @throws AppError not_found (mailbox), bad_request (cursor, date in `q`) */
  listThreads(caller: Caller, filters: ThreadFilters): Promise<ThreadListView>;
  /** The same over everything except trash and spam, unless a folder is given. */
  search(caller: Caller, filters: ThreadFilters & { q: string }): Promise<ThreadListView>;
  /** @throws AppError not_found */
  getThread(caller: Caller, id: string, options: { html: boolean }): ThreadDetailView;
  /** @throws AppError bad_request, not_found, forbidden, conflict, unprocessable; then nothing has changed */
  update(caller: Caller, id: string, patch: ThreadPatch): ThreadView;
  /** The data from which a reply to a conversation starts. @throws AppError not_found */
  replyContext(caller: Caller, threadId: string): ReplyContext;
  drafts: MailboxDrafts;
  /** Newest first. @throws AppError not_found (mailbox) */
  listMessages(caller: Caller, filters: MessageFilters): MessageSummaryView[];
  /** @throws AppError not_found */
  getMessage(caller: Caller, id: string, options: { html: boolean }): MessageView;
  /** The message as an RFC 5322 file, composed from what is stored. @throws AppError not_found */
  getRawMessage(caller: Caller, id: string): Promise<Uint8Array>;
  /** The attachments of a message, to attach them to another. @throws AppError not_found */
  filesOf(caller: Caller, id: string): DraftFile[];
  /** @throws AppError not_found */
  getAttachment(caller: Caller, id: string): AttachmentContent;

  /**
   * Deletes everything in trash or spam for good, in portions; returns the number of conversations. @throws AppError
   * not_found, forbidden
   */
  emptyFolder(caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number>;

  /** Changes several conversations in one transaction, and reports refusals. @throws AppError bad_request (labels) */
  changeThreads(caller: Caller, ids: readonly string[], change: ThreadChange): BulkResult;
  /** Takes such a change back where the same was not changed again. @throws AppError not_found */
  undoChange(caller: Caller, undo: string): Omit<BulkResult, "undo">;
  /** Deletes drafts and conversations in trash or spam for good, in portions, and reports refusals. */
  deleteThreads(caller: Caller, ids: readonly string[]): Promise<{ deleted: string[]; refused: Refused[] }>;

  /** Suggestions from one mailbox while a person searches or labels. @throws AppError not_found (mailbox) */
  listLabels(caller: Caller, mailbox: string, limit: number): LabelInUse[];
  findCorrespondents(caller: Caller, mailbox: string, text: string, limit: number): EmailAddress[];
  /** The used bytes and the quota of a mailbox. @throws AppError not_found (mailbox) */
  usageFor(caller: Caller, mailbox: string): Usage;
  /** Why a message is in spam or not. @throws AppError not_found */
  getClassification(caller: Caller, id: string): ClassificationView;

  reindexing: Reindexing;

  /** Snoozes a conversation until `until` (epoch ms). @throws AppError not_found, conflict */
  snooze(tx: Tx, threadId: string, until: number): void;
  /**
   * For the scheduler: wake snoozed conversations, delete what was discarded long ago, remove blobs without a
   * reference.
   */
  jobs: readonly Job[];
}

export interface MailboxDrafts extends DraftChanges {
  /** Reads a draft for a caller who may send it. @throws AppError not_found, forbidden, conflict (it is not a draft) */
  read(caller: Caller, draftId: string): Draft;
  /** Ids of the drafts that reply to a conversation. @throws AppError not_found */
  answering(caller: Caller, threadId: string): string[];
  /** Marks for the drafts of a mailbox (id, address or alias address) in a list. @throws AppError not_found */
  marked(caller: Caller, mailbox: string): DraftMark[];
  /** Removes a draft that becomes something else in this transaction. */
  remove(tx: Tx, draft: Pick<Draft, "reach" | "threadSeq">): void;
  /** The drafts due by `now`, earliest first; and when the next one is due. Epoch ms. */
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
  /** The mailbox id for an id or address. @throws AppError not_found */
  function reachedMailbox(caller: Caller, mailbox: string): string {
    const [id] = mailboxesInReach(store.db, caller, mailboxIdOf(store.db, caller, mailbox)).keys();
    if (id === undefined) throw notFound("mailbox");
    return id;
  }
  return {
    file: (tx, filing) => fileMessage({ engine, options, runtime }, tx, filing),
    fileKept: (tx, kept) => fileKept({ engine, runtime }, tx, kept),
    exportMail: (mailboxId) => exportMailbox(store, mailboxId),
    isKnown: (mailboxId, messageId, size) => hasMessageOfSize(store.db, mailboxId, messageId, size),
    isKept: (identity) => isKept(store.db, identity),
    hasReceived: (mailboxId, message) => hasReceived(store.db, mailboxId, message),
    route: (address) => routeOf(store.db, address, runtime.now()),
    stillReaches: (route) => stillReaches(store.db, route, runtime.now()),
    routeFor: (workspaceId, address) => routeFor(store.db, workspaceId, address, runtime.now()),
    routeWithin: (workspaceId, address) => routeWithin(store.db, workspaceId, address),
    usage: (mailboxId) => usageOf(store.db, options, mailboxId),
    isLocal: (workspaceId, domain) => localDomain(store.db, workspaceId, domain) !== undefined,
    isVerifiedElsewhere: (workspaceId, domain) => isVerifiedElsewhere(store.db, workspaceId, domain),
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
    getThread: (caller, id, options) => getThread(store, caller, id, options),
    update: (caller, id, patch) => updateThread(store, caller, id, patch, runtime.now()),
    listMessages: (caller, filters) => listMessages(store.db, caller, filters),
    getMessage: (caller, id, options) => getMessage(store.db, caller, id, options),
    getRawMessage: (caller, id) => getRawMessage(store, caller, id),
    filesOf: (caller, id) => filesOf(store.db, caller, id),
    getAttachment: (caller, id) => getAttachment(store, caller, id),
    getClassification: (caller, id) => getClassification(store.db, caller, id),
    emptyFolder: (caller, mailbox, folder) => emptyFolder(store, caller, mailbox, folder),
    deleteThreads: (caller, ids) => deleteThreads(store, caller, ids),
    ...createHtmlReading({ store, read }),
    ...createUndoableChanges({ store, runtime }),
    listLabels: (caller, mailbox, limit) => labelsInUse(store.db, reachedMailbox(caller, mailbox), limit),
    findCorrespondents: (caller, mailbox, text, limit) =>
      findCorrespondents(store.db, reachedMailbox(caller, mailbox), text, limit),
    usageFor: (caller, mailbox) => usageOf(store.db, options, reachedMailbox(caller, mailbox)),
    reindexing: createReindexing(engine),
    snooze,
    jobs: [wakeSnoozed(store), sweepBlobs(store, log), deleteDiscarded(store, options)],
  };
}
