/**
 * The numbers that IMAP knows messages by (RFC 9051 §2.3.1, RFC 7162): UIDs, which grow in each folder in order of arrival,
 * and the modification sequence of each folder. A mailbox has none until it is first opened over IMAP, so that nobody else
 * pays for them. From then on triggers (0048_uids.sql) write them in the transaction of each change, whether or not the
 * server speaks IMAP meanwhile. Mail that was there before gets its UIDs in portions, from a range that was kept free for it.
 *
 * Invariants: a UID names one message with one content, forever; a message that arrives or moves gets a higher UID than all
 * before it; the modification sequence of a folder grows with every change in it.
 */
import { and, eq, isNotNull, max, sql } from "drizzle-orm";
import { letOthersRun } from "../../base/pause.ts";
import type { Job } from "../../base/scheduler.ts";
import type { Core } from "../../store/core.ts";
import { FOLDERS, type Folder, imapFolders } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { listThreadLabels } from "../state/labels.ts";
import { createLabelFolders, labelFolder, setLabelDeleted, updateLabels } from "./label-folders.ts";

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

/** Messages read, or given UIDs, at once: some 5 ms. */
const PORTION = 1_000;
/** Vanished UIDs kept for each folder; a client that was away for longer compares all UIDs. */
const MOST_VANISHED = 20_000;
const LOOK_MS = 3_600_000;
/** MODSEQ of mail that was there before the folder was opened. */
const FIRST_MODSEQ = 1;

type FolderRow = typeof imapFolders.$inferSelect;

/** A mailbox of IMAP: a folder, or the mailbox of a label (label-folders.ts). */
export type ImapFolder = Pick<
  FolderRow,
  "id" | "mailboxId" | "uidValidity" | "uidNext" | "modseq" | "vanishedThrough"
> & {
  /** The folder; undefined for the mailbox of a label. */
  folder?: Folder;
  /** The label as it is written in the mailbox. */
  label?: string;
};

/** Folders whose mail the mailboxes of labels have. */
const LABELLED: readonly Folder[] = ["inbox", "archive", "sent", "drafts"];
const isLabel = (id: number): boolean => id < 0;
/** The statements for the mailbox with an id, and its number in them. */
const numbersOf = (id: number) => ({ of: isLabel(id) ? labelNumbers : mailNumbers, number: Math.abs(id) });

interface StateRow {
  seq: number;
  id: string;
  threadId: string;
  threadSeq: number;
  kind: "received" | "sent" | "draft";
  folder: Folder;
  read: number;
  flagged: number;
  filedAt: number;
  uid: number;
  modseq: number;
  flags: number;
  size: number;
}

/** A message of a folder as it is now, without its content. */
export interface ImapState extends StateRow {
  /** Labels of the message's conversation. */
  labels: readonly string[];
}

/** A message of a folder, as IMAP numbers it. */
export interface Numbered {
  uid: number;
  /** messages.seq */
  seq: number;
  modseq: number;
}

/** The first messages of a folder, among which the first unread one is looked for. */
const AMONG = 1_000;

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
      `SELECT messages.seq, messages.id, threads.id AS threadId, threads.seq AS threadSeq, kind, messages.folder, read, flagged,
         filed_at AS filedAt, size, ${numbers}.uid, ${numbers}.modseq, ${flags} AS flags
       FROM json_each(?2) AS given CROSS JOIN ${withFlags} CROSS JOIN messages CROSS JOIN threads
       WHERE ${numbers}.message_seq = given.value AND ${owner} = +?1 AND messages.seq = given.value AND threads.seq = thread_seq
         AND ${isUnchanged}`,
    ),
    uidIn: statement<{ uid: number }, [id: number, seq: number]>(
      `SELECT ${numbers}.uid FROM ${withFlags} WHERE ${owner} = +? AND ${numbers}.message_seq = +? AND ${isUnchanged}`,
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
    // Among the first messages, since all may be unread; then as above.
    firstUnseen: statement<{ uid: number | null }, [id: number, mailboxId: string]>(
      `SELECT coalesce(
         (SELECT min(uid) FROM (SELECT uid, message_seq FROM ${byUid} WHERE ${owner} = ?1 ORDER BY uid LIMIT ${AMONG})
            CROSS JOIN messages ON seq = message_seq WHERE read = 0),
         (SELECT min(uid) FROM threads INDEXED BY threads_unread CROSS JOIN messages ON thread_seq = threads.seq
            CROSS JOIN ${numbers} ON message_seq = messages.seq AND ${owner} = +?1
          WHERE EXISTS (SELECT 1 FROM ${byUid} WHERE ${owner} = ?1 LIMIT 1 OFFSET ${AMONG})
            AND threads.mailbox_id = ?2 AND threads.unread = 1 AND messages.read = 0)
       ) AS uid`,
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

const mailNumbers = numberStatements(MAIL);
const labelNumbers = numberStatements(LABELS);

const statements = {
  count: statement<{ count: number }, [mailboxId: string, folder: Folder]>(
    "SELECT count(*) AS count FROM messages INDEXED BY messages_by_folder WHERE mailbox_id = ? AND folder = ?",
  ),
  // `+?`: see store/statement.ts.
  lacking: statement<
    { seq: number; date: number; filedAt: number; lacks: number },
    [mailboxId: string, folder: Folder, date: number, seq: number]
  >(
    `SELECT seq, date, filed_at AS filedAt, NOT EXISTS (SELECT 1 FROM imap_messages WHERE message_seq = seq) AS lacks
     FROM messages INDEXED BY messages_by_folder
     WHERE mailbox_id = ? AND folder = ? AND (date, seq) > (+?, +?) ORDER BY date, seq LIMIT ${PORTION}`,
  ),
  // CROSS JOIN: SQLite would read the whole folder for each portion, since it takes a list for long.
  fill: statement<unknown, [folderId: number, first: number, seqs: string, mailboxId: string, folder: Folder]>(
    `INSERT INTO imap_messages (message_seq, folder_id, uid, modseq)
     SELECT messages.seq, ?1, ?2 + given.key, ${FIRST_MODSEQ}
     FROM json_each(?3) AS given CROSS JOIN messages ON messages.seq = given.value
     WHERE mailbox_id = ?4 AND folder = ?5
     ON CONFLICT (message_seq) DO NOTHING`,
  ),
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
  renewValidity: statement<unknown, [seconds: number]>(
    "UPDATE imap_folders SET uid_validity = max(uid_validity + 1, ? + id)",
  ),
  forget: statement<unknown, [folderId: number, through: number]>(
    "DELETE FROM imap_vanished WHERE folder_id = ? AND modseq <= ?",
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
  unfilled: db.select().from(imapFolders).where(isNotNull(imapFolders.fillNext)).prepare(),
  folders: db.select({ id: imapFolders.id }).from(imapFolders).prepare(),
}));

/** The row of a folder; undefined until the mailbox is opened. */
export const imapFolder = (db: Db, mailboxId: string, folder: Folder): FolderRow | undefined =>
  queries(db).folder.get({ mailboxId, folder });

/** Gives the folders of a mailbox their rows, once. `now`: epoch ms. */
export function openFolders(tx: Tx, mailboxId: string, now: number): void {
  if (imapFolder(tx, mailboxId, "inbox")) return;
  // Another one in each mailbox: a name may come to mean another mailbox.
  const { last } =
    tx
      .select({ last: max(imapFolders.uidValidity) })
      .from(imapFolders)
      .get() ?? {};
  const uidValidity = Math.max(Math.floor(now / 1_000), (last ?? 0) + 1);
  for (const folder of FOLDERS) {
    const count = statements.count(tx).get(mailboxId, folder)?.count ?? 0;
    tx.insert(imapFolders)
      .values({
        mailboxId,
        folder,
        uidValidity,
        uidNext: count + 1,
        modseq: FIRST_MODSEQ,
        fillNext: count === 0 ? null : 1,
        vanishedThrough: 0,
      })
      .run();
  }
}

/** messages.seq of the mail of a folder that has no UIDs, in order of arrival. */
async function lackingIn(db: Db, { mailboxId, folder }: FolderRow): Promise<number[]> {
  const found: { seq: number; filedAt: number }[] = [];
  for (let after = { date: -1, seq: -1 }; ; ) {
    const page = statements.lacking(db).all(mailboxId, folder, after.date, after.seq);
    for (const { seq, filedAt, lacks } of page) if (lacks) found.push({ seq, filedAt });
    const last = page.at(-1);
    if (!last || page.length < PORTION) break;
    after = last;
    await letOthersRun();
  }
  return found.sort((a, b) => a.filedAt - b.filedAt || a.seq - b.seq).map(({ seq }) => seq);
}

export type Uids = ReturnType<typeof createUids>;

export function createUids(core: Core) {
  const { db, store, now } = core;
  /** Filling under way by imap_folders.id: several sessions may wait for one. */
  const filling = new Map<number, Promise<void>>();

  async function fill(folder: FolderRow): Promise<void> {
    const { id, mailboxId } = folder;
    const seqs = await lackingIn(db, folder);
    for (let next = 0, uid = folder.fillNext ?? 1; next < seqs.length; next += PORTION, uid += PORTION) {
      const portion = seqs.slice(next, next + PORTION);
      await store.enqueue((tx) => {
        statements.fill(tx).run(id, uid, JSON.stringify(portion), mailboxId, folder.folder);
        tx.update(imapFolders)
          .set({ fillNext: uid + portion.length })
          .where(eq(imapFolders.id, id))
          .run();
      });
    }
    await store.enqueue(
      (tx) => void tx.update(imapFolders).set({ fillNext: null }).where(eq(imapFolders.id, id)).run(),
    );
  }

  function filled(folder: FolderRow): Promise<void> {
    const present = filling.get(folder.id);
    if (present) return present;
    const work = fill(folder).finally(() => filling.delete(folder.id));
    filling.set(folder.id, work);
    return work;
  }

  async function folderOpened(mailboxId: string, folder: Folder): Promise<FolderRow> {
    for (;;) {
      const found = imapFolder(db, mailboxId, folder);
      if (found?.fillNext === null) return found;
      if (found) await filled(found);
      else await store.enqueue((tx) => openFolders(tx, mailboxId, now()));
    }
  }

  const labels = createLabelFolders(core, folderOpened);

  return {
    /**
     * A folder, or the mailbox of a label, once all of its mail has UIDs. The caller checks access, and that the label has a
     * mailbox. Rejects if the mailbox is gone.
     */
    opened: (mailboxId: string, folder: Folder | undefined, label = ""): Promise<ImapFolder> =>
      folder === undefined ? labels.opened(mailboxId, label, FOLDERS) : folderOpened(mailboxId, folder),
    /** Looks for changes in the mailbox of a label; folders have them at once. */
    updated: ({ id, mailboxId }: ImapFolder): Promise<void> =>
      isLabel(id) ? labels.settled(mailboxId) : Promise.resolve(),
    /**
     * Looks for changes in the mailbox of a label, within a transaction that has changed little since. Messages that came get
     * UIDs in the order of `first` (messages.seq).
     */
    update(tx: Tx, { id, mailboxId }: ImapFolder, first: readonly number[] = []): void {
      if (isLabel(id)) updateLabels(tx, mailboxId, first);
    },
    /** The folders whose mail a mailbox has, opened. */
    listHoldingFolders: (one: ImapFolder): ImapFolder[] =>
      isLabel(one.id) ? LABELLED.flatMap((folder) => imapFolder(db, one.mailboxId, folder) ?? []) : [one],
    /** The mail of a mailbox, by UID. `id`: of ImapFolder, as everywhere here. */
    numbered(id: number): Numbered[] {
      const { of, number } = numbersOf(id);
      return of.all(db).all(number);
    },
    /** The states of those of these messages (messages.seq) that are in the mailbox. */
    states(id: number, seqs: readonly number[]): ImapState[] {
      const { of, number } = numbersOf(id);
      const rows = of.states(db).all(number, JSON.stringify(seqs));
      const labels = listThreadLabels(db, [...new Set(rows.map(({ threadSeq }) => threadSeq))]);
      return rows.map((row) => ({ ...row, labels: labels.get(row.threadSeq) ?? [] }));
    },
    /** The UID of a message (messages.seq) in a mailbox; undefined if it is not there. */
    uidIn(id: number, seq: number): number | undefined {
      const { of, number } = numbersOf(id);
      return of.uidIn(db).get(number, seq)?.uid;
    },
    /** How much mail a mailbox has. */
    counts({ id, mailboxId }: ImapFolder): { messages: number; unseen: number } {
      const { of, number } = numbersOf(id);
      const messages = of.count(db).get(number)?.count ?? 0;
      const isSmall = messages <= (statements.unreadThreads(db).get(mailboxId, messages)?.count ?? 0);
      const unseen = isSmall ? of.unseenOfFolder(db).get(number) : of.unseenOfMailbox(db).get(number, mailboxId);
      return { messages, unseen: unseen?.count ?? 0 };
    },
    /** The UID of the first message that is not read. */
    firstUnseen({ id, mailboxId }: ImapFolder): number | undefined {
      const { of, number } = numbersOf(id);
      return of.firstUnseen(db).get(number, mailboxId)?.uid ?? undefined;
    },
    /** How many messages have \Deleted, and their bytes. */
    deleted({ id }: ImapFolder): { count: number; bytes: number } {
      const { of, number } = numbersOf(id);
      return of.sumDeleted(db).get(number) ?? { count: 0, bytes: 0 };
    },
    /** The messages of a mailbox that are marked as deleted, by UID. */
    markedDeleted(id: number): { uid: number; seq: number }[] {
      const { of, number } = numbersOf(id);
      return of.deleted(db).all(number);
    },
    /** A mailbox that was opened, as it is now; undefined if it is gone. */
    present: ({ id, mailboxId, folder }: ImapFolder): ImapFolder | undefined =>
      folder === undefined ? labelFolder(db, id) : imapFolder(db, mailboxId, folder),
    /** The messages of a mailbox that changed or arrived after `modseq`. */
    changedSince(id: number, modseq: number): Numbered[] {
      const { of, number } = numbersOf(id);
      return of.since(db).all(number, modseq);
    },
    /** The UIDs that vanished after `modseq`, ascending; undefined if that is no longer known. */
    vanishedSince({ id, vanishedThrough }: ImapFolder, modseq: number): number[] | undefined {
      const { of, number } = numbersOf(id);
      if (modseq < vanishedThrough) return undefined;
      return of
        .vanished(db)
        .all(number, modseq)
        .map(({ uid }) => uid);
    },
    jobs: [
      {
        name: "number-mail",
        async runDue() {
          for (const folder of queries(db).unfilled.all()) await filled(folder);
          return null;
        },
      },
      {
        name: "forget-vanished",
        deletes: true,
        async runDue(time) {
          for (const { id } of queries(db).folders.all()) await store.enqueue((tx) => forgetVanished(tx, id));
          await labels.forget(MOST_VANISHED);
          return time + LOOK_MS;
        },
      },
    ] as readonly Job[],
  };
}

/** Keeps the latest UIDs that vanished from a folder. */
function forgetVanished(tx: Tx, folderId: number, most = MOST_VANISHED): void {
  const last = mailNumbers.lastForgotten(tx).get(folderId, most);
  if (!last) return;
  statements.forget(tx).run(folderId, last.modseq);
  tx.update(imapFolders).set({ vanishedThrough: last.modseq }).where(eq(imapFolders.id, folderId)).run();
}

/**
 * Sets and takes away flags (bits of IMAP_FLAGS) of messages of a mailbox; returns how many changed. In the mailbox of a label
 * \Deleted is said of the label, all else of the message. The caller checks access.
 */
export function setImapFlags(
  tx: Tx,
  id: number,
  seqs: readonly number[],
  { add, remove }: { add: number; remove: number },
): number {
  const given = JSON.stringify(seqs);
  if (!isLabel(id)) return setFlags(tx, id, given, { add, remove });
  const { deleted } = IMAP_FLAGS;
  let changed = (add | remove) & deleted ? setLabelDeleted(tx, id, seqs, (add & deleted) !== 0) : 0;
  if ((add | remove) & ~deleted) {
    const others = { add: add & ~deleted, remove: remove & ~deleted };
    for (const folder of statements.listHoldingFolders(tx).all(given))
      changed += setFlags(tx, folder.id, given, others);
  }
  return changed;
}

function setFlags(tx: Tx, folderId: number, seqs: string, { add, remove }: { add: number; remove: number }): number {
  mailNumbers.bump(tx).run(folderId);
  return statements.setFlags(tx).run(~remove, add, folderId, seqs).changes;
}

/** Sets flags (bits of IMAP_FLAGS) of a message that has just come into a mailbox whose folders are open (openFolders). */
export function flagNew(tx: Tx, seq: number, flags: number): void {
  const given = JSON.stringify([seq]);
  for (const { id } of statements.listHoldingFolders(tx).all(given)) setFlags(tx, id, given, { add: flags, remove: 0 });
}

/** Gives messages (messages.seq) new UIDs where they are, as if they had left and come back. */
export function renumber(tx: Tx, seqs: readonly number[]): void {
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
