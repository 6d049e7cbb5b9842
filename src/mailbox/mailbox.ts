/**
 * The mailbox: one object of functions over the store, the search index and the outbox. Filing (inbound, demo) takes
 * the transaction; reading or changing for somebody takes the Caller, whose reach limits every query. The only writer
 * of threads, messages and their dependent tables.
 */
import { eq } from "drizzle-orm";
import { type Caller, notFound, reachOf } from "../access/caller.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import type { EmailAddress } from "../message/address.ts";
import type { ReadHtml } from "../message/reading.ts";
import type { SearchEngine } from "../search/engine.ts";
import { countBacklog, takeIn } from "../search/fts5/upkeep.ts";
import { readStoredAfter } from "../search/stored.ts";
import { type Folder, type LabelColour, mailboxes } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
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
import { createCodes } from "./codes.ts";
import type { ComposeStored } from "./composers.ts";
import {
  createDraftChanges,
  type Draft,
  type DraftMark,
  draftsAnswering,
  dueDrafts,
  markedDrafts,
  nextDue,
  readDraft,
  removeDraft,
  type ScheduledDraft,
  scheduledDrafts,
} from "./drafts.ts";
import { type Filed, type Filing, fileCopies, fileMessage, hasReceived } from "./filing.ts";
import { hasMessageOfSize } from "./filing-rows.ts";
import { createFolderSearch } from "./folder-search.ts";
import { type HeldMark, heldMarks } from "./holds.ts";
import type { ClassificationView } from "./junk/classification.ts";
import { makeLabelFolder, renameLabelFolder } from "./label-folders.ts";
import { type LabelPage, labelsAcross, labelsInUse, replaceLabel, setLabelColour } from "./labels.ts";
import { createListing } from "./listing.ts";
import { listMailboxes, mailboxesInReach, mailboxIdOf, type Usage, usageOf } from "./mailboxes.ts";
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
import { composeHere, createOctets } from "./octets.ts";
import type { PreparedMessage } from "./prepare.ts";
import { createHtmlReading } from "./reading.ts";
import { deleteDiscarded, moveBlobs, sweepBlobs } from "./removal.ts";
import { createRenewal } from "./renewal.ts";
import { findCorrespondents } from "./suggestions.ts";
import {
  type BulkResult,
  createUndoableChanges,
  deleteThreads,
  emptyFolder,
  getThread,
  type LabelChange,
  labelAll,
  snoozeThread,
  updateThread,
  updateThreads,
} from "./threads.ts";
import { exportMailbox, fileKept, isKept, type KeptMessage, type MessageIdentity } from "./transfer.ts";
import { createUids } from "./uids.ts";
import { createUndo } from "./undo.ts";
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

export type Mailbox = ReturnType<typeof createMailbox>;

const ONE_LINE_IN_MS = 60_000;

export function createMailbox({
  store,
  engine,
  runtime,
  options,
  log,
  read,
  composeStored = composeHere(store.blobs),
  wake = () => {},
}: {
  store: Store;
  engine: SearchEngine;
  runtime: Pick<Runtime, "now" | "elapsed" | "randomBytes" | "setTimer">;
  options: Options;
  log: Log;
  read: ReadHtml;
  composeStored?: ComposeStored;
  /** Runs a job now, because there is work for it. */
  wake?: (job: string) => void;
}) {
  const { db } = store;
  const reading = createHtmlReading({ store, engine, read });
  const codes = createCodes({ db, read, reading });
  const uids = createUids({ store, now: runtime.now });
  const octets = createOctets({ store, runtime, log, compose: composeStored, wake });

  /** When mailboxes were last logged as full, epoch ms. */
  const toldFull = new Map<string, number>();

  /** Logs that a mailbox had no room, once a minute at most: senders come again and again. */
  function noteFull(mailboxId: string, facts: { size: number; bytes: number; quotaBytes: number }): void {
    const now = runtime.now();
    // The absolute difference, since the clock may have been set back.
    if (Math.abs(now - (toldFull.get(mailboxId) ?? 0)) < ONE_LINE_IN_MS) return;
    toldFull.set(mailboxId, now);
    const row = db.select({ address: mailboxes.address }).from(mailboxes).where(eq(mailboxes.id, mailboxId)).get();
    log.warn("the mailbox is full: a message was refused", { mailbox: row?.address, ...facts });
  }

  /** The mailbox id for an id or address. @throws AppError not_found */
  function reachedMailbox(caller: Caller, mailbox: string): string {
    const [id] = mailboxesInReach(db, caller, mailboxIdOf(db, caller, mailbox)).keys();
    if (id === undefined) throw notFound("mailbox");
    return id;
  }

  return {
    /** Files a message into a mailbox: conversation, index, usage and message.inbound, in the given transaction. */
    file: (tx: Tx, filing: Filing): Filed => fileMessage({ engine, options, runtime }, tx, filing),
    /**
     * Files copies of one message, in order. Of a long one, some copies are searchable only soon after the transaction;
     * with `indexLater`, all.
     */
    fileCopies: (tx: Tx, filings: readonly Filing[], given: { indexLater: boolean }): Filed[] =>
      fileCopies({ engine, options, runtime }, tx, filings, given),
    /** True if the mailbox has received the message before, so that filing it would change nothing. */
    hasReceived: (mailboxId: string, message: PreparedMessage): boolean => hasReceived(db, mailboxId, message),
    /** Files a message that was kept elsewhere in its former state; there is no event. */
    fileKept: (tx: Tx, kept: KeptMessage): Filed => fileKept({ engine, runtime }, tx, kept),
    /** True if the mailbox already has the message, so that fileKept would change nothing. */
    isKept: (identity: MessageIdentity): boolean => isKept(db, identity),
    /** True if the mailbox almost certainly has a message, judging by its Message-ID and size only. */
    isKnown: (mailboxId: string, messageId: string, size: number): boolean =>
      hasMessageOfSize(db, mailboxId, messageId, size),
    /** Exports all mail of a mailbox that its owner may see, in an order in which it can be filed again. */
    exportMail: (mailboxId: string) => exportMailbox(store, mailboxId),

    /** Routes mail from other servers. `address` as in RCPT TO, without the angle brackets. */
    route: (address: string): Route => routeOf(db, address, runtime.now()),
    /**
     * True if a route of mail from other servers still stands: its mailbox takes mail, and its workspace has the
     * domain.
     */
    stillReaches: (route: MailboxRoute): boolean => stillReaches(db, route, runtime.now()),
    /** Routes mail of a workspace. */
    routeFor: (workspaceId: string, address: string): Route => routeFor(db, workspaceId, address, runtime.now()),
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

    usage: (mailboxId: string): Usage => usageOf(db, options, mailboxId),
    /**
     * True if a mailbox takes an arriving message of `size` bytes: within its quota, or at an address that is exempt from
     * it while the disk and the workspace have room. Strangers know those addresses, and must not be able to fill the disk.
     */
    hasRoom({ mailboxId, exempt }: Pick<MailboxRoute, "mailboxId" | "exempt">, size: number): boolean {
      const { bytes, quotaBytes, workspaceRoom = Number.POSITIVE_INFINITY } = usageOf(db, options, mailboxId);
      const hasIt = bytes + size <= quotaBytes || (exempt && size <= workspaceRoom && !store.isDiskLow());
      if (!hasIt) noteFull(mailboxId, { size, bytes, quotaBytes });
      return hasIt;
    },
    /** The used bytes and the quota of a mailbox. @throws AppError not_found (mailbox) */
    usageFor: (caller: Caller, mailbox: string): Usage => usageOf(db, options, reachedMailbox(caller, mailbox)),
    listMailboxes: (caller: Caller): MailboxView[] => listMailboxes(db, caller),

    ...createListing({ store, engine, runtime, maskRows: codes.maskRows }),
    /** @throws AppError not_found */
    getThread: (caller: Caller, id: string, options: { html: boolean }): ThreadDetailView =>
      getThread(store, caller, id, options),
    /** @throws AppError bad_request, not_found, forbidden, conflict, unprocessable; then nothing has changed */
    update: (caller: Caller, id: string, patch: ThreadPatch): ThreadView =>
      updateThread(store, caller, id, patch, runtime.now()),
    /** Changes or refuses each of several conversations; `ids` are distinct. @throws AppError bad_request */
    updateAll: (caller: Caller, ids: readonly string[], patch: ThreadPatch): Omit<BulkResult, "undo"> =>
      updateThreads(store, caller, ids, patch, runtime.now()),
    /** Snoozes until `until` (epoch ms), or ends that. @throws AppError not_found, forbidden, conflict */
    snoozeFor: (caller: Caller, id: string, until: number | null): ThreadView =>
      snoozeThread(store, caller, id, until, runtime.now()),
    ...createUndoableChanges({ store, runtime }),
    /**
     * Changes single messages (messages.seq), as mail apps do; see changeMessages, flagMessages, fileUnder and expungeMessages.
     * @throws AppError not_found, forbidden, conflict; then nothing has changed
     */
    changeMessages: (tx: Tx, caller: Caller, seqs: readonly number[], change: MessageChange): void =>
      changeMessages(tx, caller, seqs, change, runtime.now()),
    flagMessages: (
      tx: Tx,
      caller: Caller,
      folderId: number,
      seqs: readonly number[],
      flags: { add: number; remove: number },
    ): void => flagMessages(tx, caller, folderId, seqs, flags, runtime.now()),
    fileUnder: (tx: Tx, caller: Caller, seqs: readonly number[], under: { label?: string; leaves: boolean }): void =>
      fileUnder(tx, caller, seqs, under, runtime.now()),
    expungeMessages: (tx: Tx, caller: Caller, seqs: readonly number[]): void =>
      expungeMessages(tx, caller, seqs, runtime.now()),
    /** See requireMovable. @throws AppError not_found, forbidden, conflict */
    requireMovable: (caller: Caller, seqs: readonly number[], folder: Folder, needed: "read" | "manage"): void =>
      requireMovable(db, caller, seqs, folder, needed),
    /** See fileAppended. @throws AppError; then nothing has changed */
    fileAppended: (tx: Tx, caller: Caller, appended: Appended): FiledInto =>
      fileAppended({ engine, runtime }, tx, caller, appended),
    takeBack: (tx: Tx, caller: Caller, filed: FiledInto): void => takeBack(tx, caller, filed, runtime.now()),
    sentAs,
    dropAppended,
    /** Mail from one mailbox into another: see fileToCarry and carryMessage. */
    fileToCarry: (seq: number, folder: Folder): Promise<Uint8Array | undefined> => fileToCarry(store, seq, folder),
    carryMessage: (tx: Tx, caller: Caller, carrying: Carrying): FiledInto | undefined =>
      carryMessage({ engine, runtime }, tx, caller, carrying),
    /** Takes back what an API key did to conversations. The caller checks who may. */
    undoKey: createUndo({ store, runtime }),
    /** Deletes drafts and conversations in trash or spam for good, in portions, and reports refusals. */
    deleteThreads: (caller: Caller, ids: readonly string[]) => deleteThreads(store, caller, ids),
    /**
     * Deletes everything in trash or spam for good, in portions; returns the number of conversations. @throws AppError
     * not_found, forbidden
     */
    emptyFolder: (caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number> =>
      emptyFolder(store, caller, mailbox, folder),
    /** Snoozes a conversation until `until` (epoch ms). @throws AppError not_found, conflict */
    snooze,

    /**
     * The changes after a cursor in the caller's reach, or in one mailbox (id or address); without a cursor the present
     * one. @throws AppError bad_request (cursor), not_found (mailbox)
     */
    changes: (
      caller: Caller,
      { after, mailbox }: { after?: string | undefined; mailbox?: string | undefined },
    ): ChangesView => {
      const mailboxId = mailbox === undefined ? undefined : reachedMailbox(caller, mailbox);
      return readChanges(db, caller, { after, mailboxId }, runtime.now());
    },

    /** Newest first. @throws AppError not_found (mailbox) */
    listMessages: (caller: Caller, filters: MessageFilters): MessageSummaryView[] => listMessages(db, caller, filters),
    /** The position after the latest arrival. */
    latestArrival: (): string => latestArrival(db),
    /** See positionAfter. @throws AppError bad_request */
    positionAfter: (after: string): string => positionAfter(db, options, after, runtime.now()),
    /** See arrivalsAfter. @throws AppError not_found (mailbox) */
    arrivalsAfter: (caller: Caller, after: string, filters: MessageFilters) =>
      arrivalsAfter(db, caller, after, filters),
    /** @throws AppError not_found */
    getMessage: (caller: Caller, id: string, options: { html: boolean }): MessageView =>
      getMessage(db, caller, id, options),
    /** What getMessage leaves out. @throws AppError not_found */
    detailsOf: (caller: Caller, id: string): MessageDetailsView => detailsOf(db, caller, id),
    /** Text and HTML of a message as they were written. @throws AppError not_found */
    writtenContent: (caller: Caller, id: string): { text: string; html?: string } => writtenContent(db, caller, id),
    /** The message as an RFC 5322 file, composed from what is stored; a large one is in a file's memory. @throws AppError not_found */
    getRawMessage: (caller: Caller, id: string): Promise<Uint8Array> => getRawMessage(store, composeStored, caller, id),
    /** An attachment, to attach it to another message. @throws AppError not_found */
    fileOf: (caller: Caller, id: string): StoredFile => fileOf(db, caller, id),
    /** The attachments of a message, to attach them to another. @throws AppError not_found */
    filesOf: (caller: Caller, id: string): StoredFile[] => filesOf(db, caller, id),
    /** @throws AppError not_found */
    getAttachment: (caller: Caller, id: string): Promise<AttachmentContent> => getAttachment(store, caller, id),
    /** Why a message is in spam or not. @throws AppError not_found */
    getClassification: (caller: Caller, id: string): ClassificationView => getClassification(db, caller, id),
    /** Records that a recipient's server accepted the sent message at `now` (epoch ms). The first call counts. */
    markDelivered,
    ...reading,
    /** What the reader of a received message is warned of. @throws AppError not_found */
    warnings: (caller: Caller, id: string): Promise<Warning[]> =>
      warningsAbout(db, caller, id, () => reading.deceptiveLinks(caller, id)),
    ...codes,
    /** The numbers that IMAP knows messages by. */
    uids,
    /** What its SEARCH asks. */
    folderSearch: createFolderSearch({ db, engine }),
    /** The octets that it serves. */
    octets,
    /** Changes the labels of conversations in a transaction. @throws AppError; then nothing has changed */
    labelAll: (tx: Tx, caller: Caller, ids: readonly string[], labels: LabelChange): void =>
      labelAll(tx, caller, ids, labels, runtime.now()),

    drafts: {
      ...createDraftChanges({ engine, runtime }),
      /**
       * Reads a draft for a caller who may send it, or with `access` read it. @throws AppError not_found, forbidden,
       * conflict (it is not a draft)
       */
      read: (caller: Caller, draftId: string, access?: "read" | "send"): Draft =>
        readDraft(db, caller, draftId, access),
      /** Ids of the drafts that reply to a conversation. @throws AppError not_found */
      answering: (caller: Caller, threadId: string): string[] => draftsAnswering(db, caller, threadId),
      /** Marks for the drafts of a mailbox (id, address or alias address) in a list. @throws AppError not_found */
      marked: (caller: Caller, mailbox: string): DraftMark[] => markedDrafts(db, reachedMailbox(caller, mailbox)),
      /** The same for messages that were held. @throws AppError not_found */
      held: (caller: Caller, mailbox: string): HeldMark[] => heldMarks(db, reachedMailbox(caller, mailbox)),
      /** Scheduled drafts of a mailbox (id, address or alias address), the next first. @throws AppError not_found */
      scheduled: (caller: Caller, mailbox: string): ScheduledDraft[] =>
        scheduledDrafts(db, reachedMailbox(caller, mailbox)),
      /** Removes a draft that becomes something else in this transaction. */
      remove: removeDraft,
      /** Moves a draft to trash, for who may send it. @throws AppError not_found */
      trash: (tx: Tx, caller: Caller, draftId: string): void => trashDraft(tx, caller, draftId, runtime.now()),
      /** The drafts due by `now` (epoch ms), earliest first. */
      due: (now: number) => dueDrafts(db, now),
      /** When the next draft is due, epoch ms. */
      nextDue: (): number | null => nextDue(db),
    },

    /** Mailboxes of labels, for mail apps: see label-folders.ts. @throws AppError not_found, forbidden */
    makeLabelFolder: (tx: Tx, caller: Caller, mailboxId: string, label: string): void =>
      makeLabelFolder(tx, caller, mailboxId, label, runtime.now()),
    renameLabelFolder: (caller: Caller, mailboxId: string, label: string, to: string | undefined): Promise<void> =>
      renameLabelFolder(store, caller, { mailboxId, label, to, now: runtime.now }),
    /** Suggestions from one mailbox while a person labels or addresses mail. @throws AppError not_found (mailbox) */
    listLabels: (caller: Caller, mailbox: string, limit: number) =>
      labelsInUse(db, reachedMailbox(caller, mailbox), limit),
    /** The labels of all mailboxes in reach, by name: those after the one with the key `after`. */
    labelsInReach: (caller: Caller, page: LabelPage) => labelsAcross(db, [...reachOf(db, caller).keys()], page),
    /**
     * Renames a label in every mailbox that the caller manages, or removes it; returns the number of conversations.
     * @throws AppError bad_request, not_found, forbidden
     */
    replaceLabel: (caller: Caller, label: string, replacement?: string): Promise<number> =>
      replaceLabel(store, caller, { label, replacement, now: runtime.now }),
    /** The same in one mailbox. */
    replaceLabelIn: (caller: Caller, mailbox: string, label: string, replacement?: string): Promise<number> =>
      replaceLabel(store, caller, {
        label,
        replacement,
        mailboxId: reachedMailbox(caller, mailbox),
        now: runtime.now,
      }),
    /** @throws AppError not_found, forbidden */
    setLabelColour: (caller: Caller, mailbox: string, label: string, colour: LabelColour | null): void =>
      store.transact((tx) => setLabelColour(tx, caller, { mailboxId: reachedMailbox(caller, mailbox), label, colour })),
    findCorrespondents: (caller: Caller, mailbox: string, text: string, limit: number): EmailAddress[] =>
      findCorrespondents(db, reachedMailbox(caller, mailbox), text, limit),

    /**
     * Rebuilds the search index from stored mail, in portions: an old entry is found until its message is reached, and
     * mail filed meanwhile already has its new entry.
     */
    reindexing: {
      prune: engine.prune,
      isDamaged: engine.isDamaged,
      empty: engine.empty,
      complete: engine.complete,
      refill: engine.refill,
      pending: engine.pending,
      /**
       * Rewrites the entries of `limit` messages after the one numbered `after` (0 for the first). `last` is the number
       * to continue from, undefined at the end.
       */
      portion(tx: Tx, after: number, limit: number): { messages: number; last: number | undefined } {
        const portion = readStoredAfter(tx, after, limit);
        for (const { seq, workspaceId, mailboxId, fold } of portion) {
          engine.rewrite(tx, seq, { workspaceId, mailboxId }, fold());
        }
        return { messages: portion.length, last: portion.at(-1)?.seq };
      },
    },

    /** Stored mail that the index lacks. */
    backlog: {
      /** Notes a message that was stored without its entry. */
      add: engine.addLater,
      count: () => countBacklog(db),
      /** Indexes some, about `limit` messages. */
      takeIn: (tx: Tx, limit: number) => takeIn(tx, engine, limit),
    },

    /** Moves the files of attachments to S3 or back, beside a running server: see store/blob-move.ts. */
    moveBlobs: (to: "s3" | "files", following: Omit<Parameters<typeof moveBlobs>[2], "runtime">) =>
      moveBlobs(store, to, { ...following, runtime }),

    /**
     * For the scheduler: wake snoozed conversations, remove blobs without a reference, delete what was discarded long
     * ago, forget whom an absence was told to, number mail for IMAP, freeze its octets, read old HTML anew.
     */
    jobs: [
      wakeSnoozed(store),
      sweepBlobs(store, log),
      deleteDiscarded(store, options),
      forgetChanges(store),
      forgetTold(store),
      ...uids.jobs,
      octets.job,
      createRenewal(store, reading.renewSeen, runtime),
    ] as readonly Job[],
  };
}
