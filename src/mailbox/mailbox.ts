/**
 * The mailbox: one object of functions over the store, the search index and the outbox. Filing (inbound, demo) takes
 * the transaction; reading or changing for somebody takes the Caller, whose reach limits every query. The only writer
 * of threads, messages and their dependent tables.
 */
import type { Caller } from "../access/caller.ts";
import type { Job } from "../base/scheduler.ts";
import type { EmailAddress } from "../message/address.ts";
import { countBacklog, reindexPortion, takeIn } from "../search/fts5/upkeep.ts";
import type { Folder, LabelColour } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { forgetTold } from "./absences.ts";
import {
  isVerifiedElsewhere,
  isVerifiedFor,
  localDomain,
  type MailboxRoute,
  type Route,
  routeFor,
  routeOf,
  routeWithin,
  stillReaches,
} from "./addresses.ts";
import { arrivalsAfter, latestArrival, positionAfter } from "./arrivals.ts";
import {
  type Appended,
  type Carrying,
  carryMessage,
  dropAppended,
  type FiledInto,
  fileAppended,
  fileToCarry,
  sentAs,
  takeBack,
} from "./carrying.ts";
import { snooze, trashDraft, wakeSnoozed } from "./change.ts";
import { type ChangesView, forgetChanges, readChanges } from "./change-feed.ts";
import { documentFor, getSeen, getVisibleHtml, maskAnswer, textOfFile } from "./codes.ts";
import type { MailCore } from "./core.ts";
import {
  attachFiles,
  changeDraft,
  claimDraft,
  type Draft,
  type DraftMark,
  detachFile,
  draftsAnswering,
  dueDrafts,
  markedDrafts,
  nextDue,
  readDraft,
  recallDrafts,
  refuseDraft,
  removeDraft,
  replaceFiles,
  type ScheduledDraft,
  scheduleDraft,
  scheduledDrafts,
} from "./drafts.ts";
import { type Filed, type Filing, fileCopies, fileMessage, hasReceived } from "./filing.ts";
import { hasMessageOfSize } from "./filing-rows.ts";
import {
  findFlagged,
  findLabelled,
  findLong,
  findMarked,
  findMessage,
  findUnread,
  isInThread,
  readBodies,
  readDates,
  readEnvelopes,
  readHeaders,
} from "./folder-search.ts";
import { type HeldMark, heldMarks } from "./holds.ts";
import type { ClassificationView } from "./junk/classification.ts";
import { makeLabelFolder, renameLabelFolder } from "./label-folders.ts";
import { type LabelPage, labelsInReach, listLabels, replaceLabel, setLabelColour } from "./labels.ts";
import { countMatching, listThreads, searchThreads } from "./listing.ts";
import { hasRoom, listMailboxes, reachedMailbox, type Usage, usageOf } from "./mailboxes.ts";
import {
  changeMessages,
  expungeMessages,
  fileUnder,
  flagMessages,
  type MessageChange,
  requireMovable,
} from "./message-changes.ts";
import {
  detailsOf,
  fileOf,
  filesOf,
  getAttachment,
  getClassification,
  getMessage,
  getRawMessage,
  listMessages,
  markDelivered,
  type StoredFile,
  writtenContent,
} from "./messages.ts";
import { createOctets } from "./octets.ts";
import type { PreparedMessage } from "./prepare.ts";
import { editorOf, forwardHtml, frameOf, renewHtml } from "./reading.ts";
import { deleteDiscarded, moveBlobs, sweepBlobs } from "./removal.ts";
import { renewAllSeen } from "./renewal.ts";
import { findCorrespondents } from "./suggestions.ts";
import {
  type ChangedThreads,
  changeThreads,
  deleteThreads,
  emptyFolder,
  getThread,
  type LabelChange,
  labelAll,
  snoozeThread,
  undoChange,
  updateThread,
  updateThreads,
} from "./threads.ts";
import { exportMailbox, fileKept, isKept, type KeptMessage, type MessageIdentity } from "./transfer.ts";
import { createUids } from "./uids.ts";
import { undoKey } from "./undo.ts";
import type {
  AttachmentContent,
  MailboxView,
  MessageDetailsView,
  MessageFilters,
  MessageSummaryView,
  MessageView,
  ThreadDetailView,
  ThreadPatch,
  ThreadView,
} from "./views.ts";
import { type Warning, warningsAbout } from "./warnings.ts";

/** Parameters after the context. */
type Rest<F extends (core: never, ...given: never) => unknown> = F extends (core: never, ...given: infer P) => unknown
  ? P
  : never;

export type Mailbox = ReturnType<typeof createMailbox>;

export function createMailbox(core: MailCore) {
  const { db } = core;
  const uids = createUids(core);
  const octets = createOctets(core);

  return {
    /** Files a message into a mailbox: conversation, index, usage and message.inbound, in the given transaction. */
    file: (tx: Tx, filing: Filing): Filed => fileMessage(core, tx, filing),
    /**
     * Files copies of one message, in order. Of a long one, some copies are searchable only soon after the transaction;
     * with `indexLater`, all.
     */
    fileCopies: (tx: Tx, filings: readonly Filing[], given: { indexLater: boolean }): Filed[] =>
      fileCopies(core, tx, filings, given),
    /** True if the mailbox has received the message before, so that filing it would change nothing. */
    hasReceived: (mailboxId: string, message: PreparedMessage): boolean => hasReceived(db, mailboxId, message),
    /** Files a message that was kept elsewhere in its former state; there is no event. */
    fileKept: (tx: Tx, kept: KeptMessage): Filed => fileKept(core, tx, kept),
    /** True if the mailbox already has the message, so that fileKept would change nothing. */
    isKept: (identity: MessageIdentity): boolean => isKept(db, identity),
    /** True if the mailbox almost certainly has a message, judging by its Message-ID and size only. */
    isKnown: (mailboxId: string, messageId: string, size: number): boolean =>
      hasMessageOfSize(db, mailboxId, messageId, size),
    /** Exports all mail of a mailbox that its owner may see, in an order in which it can be filed again. */
    exportMail: (mailboxId: string) => exportMailbox(core, mailboxId),

    /** Routes mail from other servers. `address` as in RCPT TO, without the angle brackets. */
    route: (address: string): Route => routeOf(db, address, core.now()),
    /**
     * True if a route of mail from other servers still stands: its mailbox takes mail, and its workspace has the
     * domain.
     */
    stillReaches: (route: MailboxRoute): boolean => stillReaches(db, route, core.now()),
    /** Routes mail of a workspace. */
    routeFor: (workspaceId: string, address: string): Route => routeFor(db, workspaceId, address, core.now()),
    /**
     * Routes within one workspace, including expired mailboxes and addresses in a domain that another one has taken
     * over.
     */
    routeWithin: (workspaceId: string, address: string): Route => routeWithin(db, workspaceId, address),
    /** True if mail of a workspace to the domain (A-labels, in any case) is delivered locally. */
    isLocal: (workspaceId: string, domain: string): boolean => localDomain(db, workspaceId, domain) !== undefined,
    /** True if the domain (A-labels) was verified by another workspace. */
    isVerifiedElsewhere: (workspaceId: string, domain: string): boolean => isVerifiedElsewhere(db, workspaceId, domain),
    /** True if the domain (A-labels) was verified by the workspace. */
    isVerifiedFor: (workspaceId: string, domain: string): boolean => isVerifiedFor(db, workspaceId, domain),

    usage: (mailboxId: string): Usage => usageOf(core, mailboxId),
    hasRoom: (...given: Rest<typeof hasRoom>) => hasRoom(core, ...given),
    /** The used bytes and the quota of a mailbox. @throws AppError not_found (mailbox) */
    usageFor: (caller: Caller, mailbox: string): Usage => usageOf(core, reachedMailbox(db, caller, mailbox)),
    listMailboxes: (caller: Caller): MailboxView[] => listMailboxes(core, caller),

    listThreads: (...given: Rest<typeof listThreads>) => listThreads(core, ...given),
    search: (...given: Rest<typeof searchThreads>) => searchThreads(core, ...given),
    countMatching: (...given: Rest<typeof countMatching>) => countMatching(core, ...given),
    /** @throws AppError not_found */
    getThread: (caller: Caller, id: string, options: { html: boolean }): ThreadDetailView =>
      getThread(core, caller, id, options),
    /** @throws AppError bad_request, not_found, forbidden, conflict, unprocessable; then nothing has changed */
    update: (caller: Caller, id: string, patch: ThreadPatch): ThreadView => updateThread(core, caller, id, patch),
    /** Changes or refuses each of several conversations; `ids` are distinct. @throws AppError bad_request */
    updateAll: (caller: Caller, ids: readonly string[], patch: ThreadPatch): ChangedThreads =>
      updateThreads(core, caller, ids, patch),
    /** Snoozes until `until` (epoch ms), or ends that. @throws AppError not_found, forbidden, conflict */
    snoozeFor: (caller: Caller, id: string, until: number | null): ThreadView => snoozeThread(core, caller, id, until),
    changeThreads: (...given: Rest<typeof changeThreads>) => changeThreads(core, ...given),
    undoChange: (...given: Rest<typeof undoChange>) => undoChange(core, ...given),
    /**
     * Changes single messages (messages.seq), as mail apps do; see changeMessages, flagMessages, fileUnder and expungeMessages.
     * @throws AppError not_found, forbidden, conflict; then nothing has changed
     */
    changeMessages: (tx: Tx, caller: Caller, seqs: readonly number[], change: MessageChange): void =>
      changeMessages(tx, caller, seqs, change, core.now()),
    flagMessages: (
      tx: Tx,
      caller: Caller,
      folderId: number,
      seqs: readonly number[],
      flags: { add: number; remove: number },
    ): void => flagMessages(tx, caller, folderId, seqs, flags, core.now()),
    fileUnder: (tx: Tx, caller: Caller, seqs: readonly number[], under: { label?: string; leaves: boolean }): void =>
      fileUnder(tx, caller, seqs, under, core.now()),
    expungeMessages: (tx: Tx, caller: Caller, seqs: readonly number[]): void =>
      expungeMessages(tx, caller, seqs, core.now()),
    /** See requireMovable. @throws AppError not_found, forbidden, conflict */
    requireMovable: (caller: Caller, seqs: readonly number[], folder: Folder, needed: "read" | "manage"): void =>
      requireMovable(db, caller, seqs, folder, needed),
    /** See fileAppended. @throws AppError; then nothing has changed */
    fileAppended: (tx: Tx, caller: Caller, appended: Appended): FiledInto => fileAppended(core, tx, caller, appended),
    takeBack: (tx: Tx, caller: Caller, filed: FiledInto): void => takeBack(tx, caller, filed, core.now()),
    sentAs,
    dropAppended,
    /** Mail from one mailbox into another: see fileToCarry and carryMessage. */
    fileToCarry: (seq: number, folder: Folder): Promise<Uint8Array | undefined> => fileToCarry(core, seq, folder),
    carryMessage: (tx: Tx, caller: Caller, carrying: Carrying): FiledInto | undefined =>
      carryMessage(core, tx, caller, carrying),
    /** Takes back what an API key did to conversations. The caller checks who may. */
    undoKey: (...given: Rest<typeof undoKey>) => undoKey(core, ...given),
    /** Deletes drafts and conversations in trash or spam for good, in portions, and reports refusals. */
    deleteThreads: (caller: Caller, ids: readonly string[]) => deleteThreads(core, caller, ids),
    /**
     * Deletes everything in trash or spam for good, in portions; returns the number of conversations. @throws AppError
     * not_found, forbidden
     */
    emptyFolder: (caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number> =>
      emptyFolder(core, caller, mailbox, folder),
    /** Snoozes a conversation until `until` (epoch ms). @throws AppError not_found, conflict */
    snooze,

    /**
     * The changes after a cursor in the caller's reach, or in one mailbox (id or address); without a cursor the present
     * one. @throws AppError bad_request (cursor), not_found (mailbox)
     */
    changes: (...given: Rest<typeof readChanges>): ChangesView => readChanges(core, ...given),

    /** Newest first. @throws AppError not_found (mailbox) */
    listMessages: (caller: Caller, filters: MessageFilters): MessageSummaryView[] =>
      listMessages(core, caller, filters),
    /** The position after the latest arrival. */
    latestArrival: (): string => latestArrival(core),
    /** See positionAfter. @throws AppError bad_request */
    positionAfter: (after: string): string => positionAfter(core, after),
    /** See arrivalsAfter. @throws AppError not_found (mailbox) */
    arrivalsAfter: (caller: Caller, after: string, filters: MessageFilters) =>
      arrivalsAfter(core, caller, after, filters),
    /** @throws AppError not_found */
    getMessage: (caller: Caller, id: string, options: { html: boolean }): MessageView =>
      getMessage(core, caller, id, options),
    /** What getMessage leaves out. @throws AppError not_found */
    detailsOf: (caller: Caller, id: string): MessageDetailsView => detailsOf(core, caller, id),
    /** Text and HTML of a message as they were written. @throws AppError not_found */
    writtenContent: (caller: Caller, id: string): { text: string; html?: string } => writtenContent(core, caller, id),
    /** The message as an RFC 5322 file, composed from what is stored; a large one is in a file's memory. @throws AppError not_found */
    getRawMessage: (caller: Caller, id: string): Promise<Uint8Array> => getRawMessage(core, caller, id),
    /** An attachment, to attach it to another message. @throws AppError not_found */
    fileOf: (caller: Caller, id: string): StoredFile => fileOf(core, caller, id),
    /** The attachments of a message, to attach them to another. @throws AppError not_found */
    filesOf: (caller: Caller, id: string): StoredFile[] => filesOf(core, caller, id),
    /** @throws AppError not_found */
    getAttachment: (caller: Caller, id: string): Promise<AttachmentContent> => getAttachment(core, caller, id),
    /** Why a message is in spam or not. @throws AppError not_found */
    getClassification: (caller: Caller, id: string): ClassificationView => getClassification(core, caller, id),
    /** Records that a recipient's server accepted the sent message at `now` (epoch ms). The first call counts. */
    markDelivered,
    renewHtml: (...given: Rest<typeof renewHtml>) => renewHtml(core, ...given),
    forwardHtml: (...given: Rest<typeof forwardHtml>) => forwardHtml(core, ...given),
    frameOf: (...given: Rest<typeof frameOf>) => frameOf(core, ...given),
    editorOf: (...given: Rest<typeof editorOf>) => editorOf(core, ...given),
    /** What the reader of a received message is warned of. @throws AppError not_found */
    warnings: (caller: Caller, id: string): Promise<Warning[]> => warningsAbout(core, caller, id),
    maskAnswer: (...given: Rest<typeof maskAnswer>) => maskAnswer(core, ...given),
    documentFor: (...given: Rest<typeof documentFor>) => documentFor(core, ...given),
    getSeen: (...given: Rest<typeof getSeen>) => getSeen(core, ...given),
    getVisibleHtml: (...given: Rest<typeof getVisibleHtml>) => getVisibleHtml(core, ...given),
    textOfFile: (...given: Rest<typeof textOfFile>) => textOfFile(core, ...given),
    /** The numbers that IMAP knows messages by. */
    uids,
    /** What its SEARCH asks. */
    folderSearch: {
      unread: (...given: Rest<typeof findUnread>) => findUnread(core, ...given),
      flagged: (...given: Rest<typeof findFlagged>) => findFlagged(core, ...given),
      marked: (...given: Rest<typeof findMarked>) => findMarked(core, ...given),
      labelled: (...given: Rest<typeof findLabelled>) => findLabelled(core, ...given),
      message: (...given: Rest<typeof findMessage>) => findMessage(core, ...given),
      ofThread: (...given: Rest<typeof isInThread>) => isInThread(core, ...given),
      inBodies: core.engine.inBodies,
      long: (...given: Rest<typeof findLong>) => findLong(core, ...given),
      dates: (...given: Rest<typeof readDates>) => readDates(core, ...given),
      envelopes: (...given: Rest<typeof readEnvelopes>) => readEnvelopes(core, ...given),
      headers: (...given: Rest<typeof readHeaders>) => readHeaders(core, ...given),
      bodies: (...given: Rest<typeof readBodies>) => readBodies(core, ...given),
    },
    /** The octets that it serves. */
    octets,
    /** Changes the labels of conversations in a transaction. @throws AppError; then nothing has changed */
    labelAll: (tx: Tx, caller: Caller, ids: readonly string[], labels: LabelChange): void =>
      labelAll(tx, caller, ids, labels, core.now()),

    drafts: {
      change: (...given: Rest<typeof changeDraft>) => changeDraft(core, ...given),
      claim: claimDraft,
      attach: (...given: Rest<typeof attachFiles>) => attachFiles(core, ...given),
      setFiles: (...given: Rest<typeof replaceFiles>) => replaceFiles(core, ...given),
      detach: (...given: Rest<typeof detachFile>) => detachFile(core, ...given),
      schedule: scheduleDraft,
      recall: recallDrafts,
      refuse: refuseDraft,
      /**
       * Reads a draft for a caller who may send it, or with `access` read it. @throws AppError not_found, forbidden,
       * conflict (it is not a draft)
       */
      read: (caller: Caller, draftId: string, access?: "read" | "send"): Draft =>
        readDraft(db, caller, draftId, access),
      /** Ids of the drafts that reply to a conversation. @throws AppError not_found */
      answering: (caller: Caller, threadId: string): string[] => draftsAnswering(core, caller, threadId),
      /** Marks for the drafts of a mailbox (id, address or alias address) in a list. @throws AppError not_found */
      marked: (caller: Caller, mailbox: string): DraftMark[] => markedDrafts(core, caller, mailbox),
      /** The same for messages that were held. @throws AppError not_found */
      held: (caller: Caller, mailbox: string): HeldMark[] => heldMarks(core, caller, mailbox),
      /** Scheduled drafts of a mailbox (id, address or alias address), the next first. @throws AppError not_found */
      scheduled: (caller: Caller, mailbox: string): ScheduledDraft[] => scheduledDrafts(core, caller, mailbox),
      /** Removes a draft that becomes something else in this transaction. */
      remove: removeDraft,
      /** Moves a draft to trash, for who may send it. @throws AppError not_found */
      trash: (tx: Tx, caller: Caller, draftId: string): void => trashDraft(tx, caller, draftId, core.now()),
      /** The drafts due by `now` (epoch ms), earliest first. */
      due: (now: number) => dueDrafts(db, now),
      /** When the next draft is due, epoch ms. */
      nextDue: (): number | null => nextDue(db),
    },

    /** Mailboxes of labels, for mail apps: see label-folders.ts. @throws AppError not_found, forbidden */
    makeLabelFolder: (tx: Tx, caller: Caller, mailboxId: string, label: string): void =>
      makeLabelFolder(tx, caller, mailboxId, label, core.now()),
    renameLabelFolder: (caller: Caller, mailboxId: string, label: string, to: string | undefined): Promise<void> =>
      renameLabelFolder(core, caller, { mailboxId, label, to }),
    /** Suggestions from one mailbox while a person labels or addresses mail. @throws AppError not_found (mailbox) */
    listLabels: (caller: Caller, mailbox: string, limit: number) => listLabels(core, caller, mailbox, limit),
    /** The labels of all mailboxes in reach, by name: those after the one with the key `after`. */
    labelsInReach: (caller: Caller, page: LabelPage) => labelsInReach(core, caller, page),
    /**
     * Renames a label in every mailbox that the caller manages, or removes it; returns the number of conversations.
     * @throws AppError bad_request, not_found, forbidden
     */
    replaceLabel: (caller: Caller, label: string, replacement?: string): Promise<number> =>
      replaceLabel(core, caller, { label, replacement }),
    /** The same in one mailbox. */
    replaceLabelIn: (caller: Caller, mailbox: string, label: string, replacement?: string): Promise<number> =>
      replaceLabel(core, caller, { label, replacement, mailboxId: reachedMailbox(db, caller, mailbox) }),
    /** @throws AppError not_found, forbidden */
    setLabelColour: (caller: Caller, mailbox: string, label: string, colour: LabelColour | null): void =>
      core.store.transact((tx) => setLabelColour(tx, caller, { mailbox, label, colour })),
    findCorrespondents: (caller: Caller, mailbox: string, text: string, limit: number): EmailAddress[] =>
      findCorrespondents(core, caller, mailbox, text, limit),

    /**
     * Rebuilds the search index from stored mail, in portions: an old entry is found until its message is reached, and
     * mail filed meanwhile already has its new entry.
     */
    reindexing: {
      prune: core.engine.prune,
      isDamaged: core.engine.isDamaged,
      empty: core.engine.empty,
      complete: core.engine.complete,
      refill: core.engine.refill,
      pending: core.engine.pending,
      portion: (tx: Tx, after: number, limit: number) => reindexPortion(tx, core.engine, after, limit),
    },

    /** Stored mail that the index lacks. */
    backlog: {
      /** Notes a message that was stored without its entry. */
      add: core.engine.addLater,
      count: () => countBacklog(db),
      /** Indexes some, about `limit` messages. */
      takeIn: (tx: Tx, limit: number) => takeIn(tx, core.engine, limit),
    },

    /** Moves the files of attachments to S3 or back, beside a running server: see store/blob-move.ts. */
    moveBlobs: (to: "s3" | "files", following: Parameters<typeof moveBlobs>[2]) => moveBlobs(core, to, following),

    /**
     * For the scheduler: wake snoozed conversations, remove blobs without a reference, delete what was discarded long
     * ago, forget whom an absence was told to, number mail for IMAP, freeze its octets, read old HTML anew.
     */
    jobs: [
      wakeSnoozed(core),
      sweepBlobs(core),
      deleteDiscarded(core),
      forgetChanges(core),
      forgetTold(core),
      ...uids.jobs,
      octets.job,
      renewAllSeen(core),
    ] as readonly Job[],
  };
}
