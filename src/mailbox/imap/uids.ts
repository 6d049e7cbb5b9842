/**
 * The numbers that IMAP knows messages by (RFC 9051 §2.3.1, RFC 7162): UIDs, which grow in each folder in order of arrival,
 * and the modification sequence of each folder. A mailbox has none until it is first opened over IMAP, so that nobody else
 * pays for them. From then on triggers (0048_uids.sql) write them in the transaction of each change, whether or not the
 * server speaks IMAP meanwhile. Mail that was there before gets its UIDs in portions, from a range that was kept free for it.
 *
 * Invariants: a UID names one message with one content, forever; a message that arrives or moves gets a higher UID than all
 * before it; the modification sequence of a folder grows with every change in it.
 */
import { and, eq, sql } from "drizzle-orm";
import { type Folder, imapFolders } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { hasLabels, listThreadLabels } from "../state/labels.ts";

/** The flags that only IMAP has, as bits of imap_messages.flags: those that the server itself asks for. */
export const IMAP_FLAGS = { deleted: 1, answered: 2, forwarded: 4, mdnSent: 8 } as const;
/**
 * All flags, in the order of their bits: system flags (RFC 9051 §2.3.2), and keywords that mail apps have for a message alone
 * (RFC 5788 §3.1; the tags of Thunderbird and the coloured flags of Apple Mail). New ones go to the end.
 */
const NAMES = `\\Deleted \\Answered $Forwarded $MDNSent $label1 $label2 $label3 $label4 $label5 $Important $Phishing
  $MailFlagBit0 $MailFlagBit1 $MailFlagBit2 $Junk $NotJunk Junk NonJunk`;
export const FLAG_BITS: readonly (readonly [name: string, bit: number])[] = NAMES.split(/\s+/).map((name, index) => [
  name,
  1 << index,
]);
/** Bit of each flag by its lower-case name. */
export const BIT_OF: ReadonlyMap<string, number> = new Map(FLAG_BITS.map(([name, bit]) => [name.toLowerCase(), bit]));

/** A message of a folder, as IMAP numbers it. */
export interface Numbered {
  uid: number;
  /** messages.seq */
  seq: number;
  modseq: number;
}

interface FlagRow extends Numbered {
  threadSeq: number;
  draft: 0 | 1;
  read: 0 | 1;
  flagged: 0 | 1;
  flags: number;
}

interface StateRow extends FlagRow {
  id: string;
  kind: "received" | "sent" | "draft";
  folder: Folder;
  filedAt: number;
  size: number;
}

/** Labels of a message's conversation. */
interface Labelled {
  labels: readonly string[];
}

/** The flags of a message of a folder as they are now. */
export type FlagState = FlagRow & Labelled;

/** A message of a folder as it is now, without its content. */
export type ImapState = StateRow & Labelled;

const NONE: readonly string[] = [];

/** The first messages of a folder, among which the first unread one is looked for, unless few conversations are unread. */
const AMONG = 1_000;
const FEW_UNREAD = 50;

/** Names of tables and columns, and conditions in SQL, of the folders of mail or of the mailboxes of labels. */
interface Layout {
  /** The table of the folders. */
  folders: string;
  /** The table of the messages of each folder. */
  numbers: string;
  /** The table of `numbers`, read by folder and UID. */
  byUid: string;
  /** The column of the folder, in `numbers` and `vanished`. */
  owner: string;
  /** `numbers`, joined with imap_messages. */
  withFlags: string;
  /** The flags of a message of `withFlags`. */
  flags: string;
  /** Condition: a message of `numbers` has \Deleted. */
  isDeleted: string;
  /** Condition: a message of `withFlags` still has the content with which it got its UID. */
  isUnchanged: string;
  /** Condition: a row of messages is in the folder ?1. */
  has: string;
  /** The table of the UIDs that vanished. */
  vanished: string;
}

const MAIL: Layout = {
  folders: "imap_folders",
  numbers: "imap_messages",
  byUid: "imap_messages INDEXED BY imap_messages_by_uid",
  owner: "folder_id",
  withFlags: "imap_messages",
  flags: "flags",
  isDeleted: `flags & ${IMAP_FLAGS.deleted}`,
  isUnchanged: "true",
  has: "+messages.folder = (SELECT folder FROM imap_folders WHERE id = ?1)",
  vanished: "imap_vanished",
};
const LABELS: Layout = {
  folders: "imap_labels",
  numbers: "imap_labelled",
  byUid: "imap_labelled",
  owner: "label_id",
  withFlags: "imap_labelled CROSS JOIN imap_messages USING (message_seq)",
  flags: `(flags & ~${IMAP_FLAGS.deleted} | iif(deleted, ${IMAP_FLAGS.deleted}, 0))`,
  isDeleted: "deleted",
  // Drafts are written anew.
  isUnchanged: `((imap_labelled.folder_id, folder_uid) = (imap_messages.folder_id, imap_messages.uid)
    OR NOT EXISTS (SELECT 1 FROM imap_folders WHERE imap_folders.id = imap_labelled.folder_id AND folder = 'drafts'))`,
  has: "EXISTS (SELECT 1 FROM imap_labelled WHERE message_seq = messages.seq AND label_id = ?1)",
  vanished: "imap_label_vanished",
};

// `+?`: see store/statement.ts.
const numberStatements = (layout: Layout) => {
  const { folders, numbers, byUid, owner, withFlags, flags, isDeleted, isUnchanged, has, vanished } = layout;
  // A string costs more than all numbers of a row.
  const flagColumns = `messages.seq, thread_seq AS threadSeq, kind = 'draft' AS draft, read, flagged, ${numbers}.uid,
    ${numbers}.modseq, ${flags} AS flags`;
  const given = `FROM json_each(?2) AS given CROSS JOIN ${withFlags} CROSS JOIN messages
    WHERE ${numbers}.message_seq = given.value AND ${owner} = +?1 AND messages.seq = given.value AND ${isUnchanged}`;
  return {
    all: statement<Numbered, [id: number]>(
      `SELECT uid, message_seq AS seq, modseq FROM ${byUid} WHERE ${owner} = ? ORDER BY uid`,
    ),
    since: statement<Numbered, [id: number, modseq: number]>(
      `SELECT uid, message_seq AS seq, modseq FROM ${byUid} WHERE ${owner} = ? AND modseq > ? ORDER BY uid`,
    ),
    vanished: statement<{ uid: number }, [id: number, modseq: number]>(
      `SELECT DISTINCT uid FROM ${vanished} WHERE ${owner} = ? AND modseq > ? ORDER BY uid`,
    ),
    states: statement<StateRow, [id: number, seqs: string]>(
      `SELECT ${flagColumns}, messages.id, kind, messages.folder, filed_at AS filedAt, size ${given}`,
    ),
    flagStates: statement<FlagRow, [id: number, seqs: string]>(`SELECT ${flagColumns} ${given}`),
    uidIn: statement<{ uid: number }, [id: number, seq: number]>(
      `SELECT ${numbers}.uid FROM ${withFlags} WHERE ${owner} = +? AND ${numbers}.message_seq = +? AND ${isUnchanged}`,
    ),
    // A JSON array: one string takes a third of the time of as many rows.
    flagged: statement<{ seqs: string }, [id: number, bit: number]>(
      `SELECT json_group_array(message_seq) AS seqs FROM ${withFlags} WHERE ${owner} = +? AND ${flags} & ?`,
    ),
    deleted: statement<{ uid: number; seq: number }, [id: number]>(
      `SELECT uid, message_seq AS seq FROM ${byUid} WHERE ${owner} = ? AND ${isDeleted} ORDER BY uid`,
    ),
    sumDeleted: statement<{ count: number; bytes: number }, [id: number]>(
      `SELECT count(*) AS count, coalesce(sum(size), 0) AS bytes FROM ${byUid} CROSS JOIN messages ON seq = message_seq
       WHERE ${owner} = +? AND ${isDeleted}`,
    ),
    count: statement<{ count: number }, [id: number]>(`SELECT count(*) AS count FROM ${byUid} WHERE ${owner} = ?`),
    // By whichever is fewer: the folder's messages, or the mailbox's unread conversations.
    unseenOfFolder: statement<{ count: number }, [id: number]>(
      `SELECT count(*) AS count FROM ${byUid} CROSS JOIN messages ON seq = message_seq WHERE ${owner} = +? AND read = 0`,
    ),
    unseenOfMailbox: statement<{ count: number }, [id: number, mailboxId: string]>(
      `SELECT count(*) AS count FROM threads INDEXED BY threads_unread CROSS JOIN messages ON thread_seq = threads.seq
       WHERE threads.mailbox_id = ?2 AND threads.unread = 1 AND messages.read = 0 AND ${has}`,
    ),
    firstUnseenOfFolder: statement<{ uid: number }, [id: number]>(
      `SELECT uid FROM (SELECT uid, message_seq FROM ${byUid} WHERE ${owner} = +? ORDER BY uid LIMIT ${AMONG})
         CROSS JOIN messages ON seq = message_seq WHERE read = 0 ORDER BY uid LIMIT 1`,
    ),
    firstUnseenOfMailbox: statement<{ uid: number | null }, [id: number, mailboxId: string]>(
      `SELECT min(uid) AS uid FROM threads INDEXED BY threads_unread CROSS JOIN messages ON thread_seq = threads.seq
         CROSS JOIN ${numbers} ON message_seq = messages.seq AND ${owner} = +?1
       WHERE threads.mailbox_id = ?2 AND threads.unread = 1 AND messages.read = 0`,
    ),
    bump: statement<unknown, [id: number]>(`UPDATE ${folders} SET modseq = modseq + 1 WHERE id = ?`),
    advance: statement<unknown, [given: number, id: number]>(
      `UPDATE ${folders} SET uid_next = uid_next + ? WHERE id = ?`,
    ),
    lastForgotten: statement<{ modseq: number }, [id: number, kept: number]>(
      `SELECT modseq FROM ${vanished} WHERE ${owner} = ? ORDER BY modseq DESC LIMIT 1 OFFSET ?`,
    ),
  };
};

export const mailNumbers = numberStatements(MAIL);
export const labelNumbers = numberStatements(LABELS);

const statements = {
  setFlags: statement<unknown, [keep: number, add: number, folderId: number, seqs: string]>(
    `UPDATE imap_messages SET flags = flags & ?1 | ?2, modseq = (SELECT modseq FROM imap_folders WHERE id = ?3)
     WHERE folder_id = ?3 AND message_seq IN (SELECT value FROM json_each(?4)) AND flags <> (flags & ?1 | ?2)`,
  ),
  buryAll: statement<unknown, [folderId: number, seqs: string]>(
    `INSERT INTO imap_vanished (folder_id, modseq, uid)
     SELECT folder_id, imap_folders.modseq, uid FROM imap_messages JOIN imap_folders ON imap_folders.id = folder_id
     WHERE folder_id = ?1 AND message_seq IN (SELECT value FROM json_each(?2))`,
  ),
  // No UID that is given is one that a message has.
  renumberAll: statement<unknown, [folderId: number, deleted: number, seqs: string]>(
    `UPDATE imap_messages SET flags = flags & ~?2, modseq = imap_folders.modseq, uid = imap_folders.uid_next + given.place
     FROM imap_folders, (SELECT message_seq AS seq, row_number() OVER (ORDER BY uid) - 1 AS place FROM imap_messages
       WHERE folder_id = ?1 AND message_seq IN (SELECT value FROM json_each(?3))) AS given
     WHERE imap_folders.id = ?1 AND message_seq = given.seq`,
  ),
  findUid: statement<{ uid: number }, [seq: number]>("SELECT uid FROM imap_messages WHERE message_seq = ?"),
  // Up to a limit.
  unreadThreads: statement<{ count: number }, [mailboxId: string, limit: number]>(
    `SELECT count(*) AS count FROM
       (SELECT 1 FROM threads INDEXED BY threads_unread WHERE mailbox_id = ? AND unread = 1 LIMIT ?)`,
  ),
  listHoldingFolders: statement<{ id: number }, [seqs: string]>(
    "SELECT DISTINCT folder_id AS id FROM imap_messages WHERE message_seq IN (SELECT value FROM json_each(?))",
  ),
  renumber: statement<unknown, [uid: number, seq: number]>("UPDATE imap_messages SET uid = ? WHERE message_seq = ?"),
  messageIds: statement<{ id: string }, [seqs: string]>(
    "SELECT id FROM messages WHERE seq IN (SELECT value FROM json_each(?))",
  ),
  threadIds: statement<{ seq: number; id: string }, [seqs: string]>(
    "SELECT seq, id FROM threads WHERE seq IN (SELECT value FROM json_each(?))",
  ),
  renewValidity: statement<unknown, [seconds: number]>(
    "UPDATE imap_folders SET uid_validity = max(uid_validity + 1, ? + id)",
  ),
};

const queries = prepared((db) => ({
  folder: db
    .select()
    .from(imapFolders)
    .where(
      and(eq(imapFolders.mailboxId, sql.placeholder("mailboxId")), eq(imapFolders.folder, sql.placeholder("folder"))),
    )
    .prepare(),
}));

/** Row of a mailbox of IMAP, of either kind. */
type FolderRow = typeof imapFolders.$inferSelect;
export type NumberedRow = Pick<
  FolderRow,
  "id" | "mailboxId" | "uidValidity" | "uidNext" | "modseq" | "vanishedThrough"
>;

/** Flags of messages to set and to take away: bits of IMAP_FLAGS. */
export interface FlagChange {
  add: number;
  remove: number;
}

/** Answers that both kinds of mailboxes give in the same way. They are as of now, whenever the row was read. */
export function numberedFolder(db: Db, numbers: typeof mailNumbers, row: NumberedRow) {
  const { id, mailboxId } = row;
  const withLabels = <T extends FlagRow>(rows: readonly T[]): (T & Labelled)[] => {
    const labelled = hasLabels(db, mailboxId) ? rows.map(({ threadSeq }) => threadSeq) : [];
    const labels = listThreadLabels(db, [...new Set(labelled)]);
    return rows.map((row) => Object.assign(row, { labels: labels.get(row.threadSeq) ?? NONE }));
  };
  return {
    ...row,
    /** Lists the mail by UID. */
    numbered: (): Numbered[] => numbers.all(db).all(id),
    /** Lists the messages that changed or arrived after `modseq`. */
    changedSince: (modseq: number): Numbered[] => numbers.since(db).all(id, modseq),
    /** Lists the UIDs that vanished after `modseq`, ascending; undefined if that is no longer known. */
    vanishedSince: (modseq: number): number[] | undefined =>
      modseq < row.vanishedThrough
        ? undefined
        : numbers
            .vanished(db)
            .all(id, modseq)
            .map(({ uid }) => uid),
    /** The states of those of these messages (messages.seq) that are in the mailbox. */
    states: (seqs: readonly number[]): ImapState[] => withLabels(numbers.states(db).all(id, JSON.stringify(seqs))),
    /** The flags of those, which cost less. */
    flagStates: (seqs: readonly number[]): FlagState[] =>
      withLabels(numbers.flagStates(db).all(id, JSON.stringify(seqs))),
    /** The UID of a message (messages.seq); undefined if it is not in the mailbox. */
    uidIn: (seq: number): number | undefined => numbers.uidIn(db).get(id, seq)?.uid,
    /** Counts the mail, and how much of it is not read. */
    counts(): { messages: number; unseen: number } {
      const messages = numbers.count(db).get(id)?.count ?? 0;
      const isSmall = messages <= (statements.unreadThreads(db).get(mailboxId, messages)?.count ?? 0);
      const unseen = isSmall ? numbers.unseenOfFolder(db).get(id) : numbers.unseenOfMailbox(db).get(id, mailboxId);
      return { messages, unseen: unseen?.count ?? 0 };
    },
    /** The UID of the first message that is not read, of `messages` in all. */
    firstUnseen(messages: number): number | undefined {
      const areMany = (statements.unreadThreads(db).get(mailboxId, FEW_UNREAD)?.count ?? 0) >= FEW_UNREAD;
      const first = areMany ? numbers.firstUnseenOfFolder(db).get(id)?.uid : undefined;
      if (first !== undefined || (areMany && messages <= AMONG)) return first;
      return numbers.firstUnseenOfMailbox(db).get(id, mailboxId)?.uid ?? undefined;
    },
    /** Counts the messages that have \Deleted, and their bytes. */
    deleted: (): { count: number; bytes: number } => numbers.sumDeleted(db).get(id) ?? { count: 0, bytes: 0 },
    /** Lists the messages that have \Deleted, by UID. */
    markedDeleted: (): { uid: number; seq: number }[] => numbers.deleted(db).all(id),
    /** Lists the messages (messages.seq) that have a bit of IMAP_FLAGS. */
    flagged: (bit: number): number[] => JSON.parse(numbers.flagged(db).get(id, bit)?.seqs ?? "[]"),
  };
}

/**
 * A mailbox of IMAP, as it was when its row was read: a folder of mail, or the mailbox of a label (label-folders.ts). The
 * caller checks access.
 */
export interface ImapFolder extends ReturnType<typeof numberedFolder> {
  /** MAILBOXID of RFC 8474, which stays when a mailbox gets another address, and a label another name. */
  objectId: string;
  /** The folder; undefined for the mailbox of a label. */
  folder?: Folder;
  /** The label as it is written in the mailbox. */
  label?: string;
  /** Reads the mailbox as it is now; undefined if it is gone. */
  present(): ImapFolder | undefined;
  /** Looks for changes in the mailbox of a label; folders have them at once. */
  updated(): Promise<void>;
  /**
   * Looks for changes in the mailbox of a label, within a transaction that has changed little since. Messages that came get
   * UIDs in the order of `first` (messages.seq).
   */
  update(tx: Tx, first?: readonly number[]): void;
  /** Lists the folders whose mail the mailbox has, opened. */
  listHoldingFolders(): ImapFolder[];
  /**
   * Sets and takes away flags of messages (messages.seq) of the mailbox; returns how many changed. In the mailbox of a label
   * \Deleted is said of the label, all else of the message.
   */
  setFlags(tx: Tx, seqs: readonly number[], change: FlagChange): number;
}

/** A folder of mail. `fillNext`: as in imap_folders. */
export type MailFolder = ImapFolder & Pick<FolderRow, "folder" | "fillNext">;

export function toMailFolder(db: Db, row: FolderRow): MailFolder {
  const { id, mailboxId, folder, fillNext } = row;
  const one: MailFolder = {
    ...numberedFolder(db, mailNumbers, row),
    objectId: `${mailboxId}_${folder}`,
    folder,
    fillNext,
    present: () => mailFolder(db, mailboxId, folder),
    updated: async () => {},
    update() {},
    listHoldingFolders: () => [one],
    setFlags: (tx, seqs, change) => setFlags(tx, id, JSON.stringify(seqs), change),
  };
  return one;
}

/** Reads a folder of a mailbox; undefined until the mailbox is opened. */
export function mailFolder(db: Db, mailboxId: string, folder: Folder): MailFolder | undefined {
  const row = queries(db).folder.get({ mailboxId, folder });
  return row && toMailFolder(db, row);
}

function setFlags(tx: Tx, folderId: number, seqs: string, { add, remove }: FlagChange): number {
  mailNumbers.bump(tx).run(folderId);
  return statements.setFlags(tx).run(~remove, add, folderId, seqs).changes;
}

/**
 * Sets and takes away flags of messages (messages.seq) in whatever folders they are; returns how many changed. Those of a
 * mailbox that was never opened have none.
 */
export function setImapFlagsInAllFolders(tx: Tx, seqs: readonly number[], change: FlagChange): number {
  const given = JSON.stringify(seqs);
  let changed = 0;
  for (const { id } of statements.listHoldingFolders(tx).all(given)) changed += setFlags(tx, id, given, change);
  return changed;
}

/** The ids of messages. */
export const listMessageIds = (db: Db, messages: readonly Pick<Numbered, "seq">[]): string[] =>
  statements
    .messageIds(db)
    .all(JSON.stringify(messages.map(({ seq }) => seq)))
    .map(({ id }) => id);

/** The ids of the conversations of messages, by threads.seq. */
export function listThreadIds(db: Db, states: readonly Pick<ImapState, "threadSeq">[]): Map<number, string> {
  const seqs = JSON.stringify([...new Set(states.map(({ threadSeq }) => threadSeq))]);
  return new Map(
    statements
      .threadIds(db)
      .all(seqs)
      .map(({ seq, id }) => [seq, id]),
  );
}

/** Gives messages (messages.seq) new UIDs where they are, as if they had left and come back. */
export function assignNewUids(tx: Tx, seqs: readonly number[]): void {
  const given = JSON.stringify(seqs);
  for (const { id } of statements.listHoldingFolders(tx).all(given)) {
    mailNumbers.bump(tx).run(id);
    statements.buryAll(tx).run(id, given);
    const { changes } = statements.renumberAll(tx).run(id, IMAP_FLAGS.deleted, given);
    mailNumbers.advance(tx).run(changes, id);
  }
}

/**
 * Gives messages (messages.seq) that came into one folder together their UIDs there in this order, in the transaction of
 * their arrival, when nobody knows them yet.
 */
export function orderUids(tx: Tx, seqs: readonly number[]): void {
  const uids = seqs.flatMap((seq) => statements.findUid(tx).get(seq)?.uid ?? []);
  for (const [index, uid] of uids.toSorted((a, b) => a - b).entries()) {
    if (uid !== uids[index]) statements.renumber(tx).run(uid, seqs[index] as number);
  }
}

/** UIDs begin anew in every folder, since those given after a backup, or after the last that a replica has, are unknown to it. `now`: epoch ms. */
export const renewUidValidity = (db: Db, now: number): void =>
  void statements.renewValidity(db).run(Math.floor(now / 1_000));
