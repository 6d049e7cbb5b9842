/**
 * The mailboxes of labels, for people who want their mail apps to see them: the messages of conversations with a label, but for
 * those in trash and spam. They are numbered like folders (uids.ts), whose rows they follow at each look: no change of mail
 * writes anything here. A look costs by what has changed in the folders since the last one.
 *
 * Invariants: a UID names one message with one content, forever; whoever reads rows has looked before (`update`); UIDVALIDITY,
 * which is that of the folders plus the number of the row, is of one label alone.
 */
import { and, eq, isNull, sql } from "drizzle-orm";
import { type Caller, findReach, outOfReachError, requireAccess } from "../../access/caller.ts";
import { isUnavailable } from "../../base/errors.ts";
import { letOthersRun } from "../../base/pause.ts";
import { addJournalEntry } from "../../journal/entries.ts";
import { toThreadSeq } from "../../search/document-number.ts";
import type { Core } from "../../store/core.ts";
import { FOLDERS, type Folder, imapFolders, imapLabels, users } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { labelKey, moveLabelFolder, replaceLabel, threadsLabelledIn } from "../state/labels.ts";
import {
  type FlagChange,
  IMAP_FLAGS,
  type ImapFolder,
  labelNumbers,
  mailFolder,
  type NumberedRow,
  numberedFolder,
  setImapFlagsInAllFolders,
} from "./uids.ts";

/** Messages that are numbered in one transaction, or read at once: some 10 ms. */
const PORTION = 1_000;
/** Messages that are compared in one transaction, and the labels that these had and have: some 20 ms. */
const MOST_COMPARED = 2_000;
/** Changes of a folder, or vanished UIDs, that are found by one look at all of its numbers: 5 ms of 100,000. */
const MOST_FOUND = 10_000;
/** Folders whose mail the mailboxes of labels have. */
const LABELLED: readonly Folder[] = ["inbox", "archive", "sent", "drafts"];

type LabelRow = NumberedRow & { label: string; filled: number };

const SELECT_LABEL = `SELECT imap_labels.id, imap_labels.mailbox_id AS mailboxId,
    coalesce(mailbox_labels.label, imap_labels.label) AS label, filled, uid_validity + imap_labels.id AS uidValidity,
    imap_labels.uid_next AS uidNext, imap_labels.modseq, imap_labels.vanished_through AS vanishedThrough
  FROM imap_labels
    JOIN imap_folders ON imap_folders.mailbox_id = imap_labels.mailbox_id AND imap_folders.folder = 'inbox'
    LEFT JOIN mailbox_labels
      ON mailbox_labels.mailbox_id = imap_labels.mailbox_id AND mailbox_labels.label_key = imap_labels.label_key`;

/** Labels in use, and those whose mailboxes were made. */
const THERE = `SELECT label_key AS key, label FROM mailbox_labels WHERE mailbox_id = ?1
  UNION ALL SELECT label_key, label FROM imap_labels AS made WHERE mailbox_id = ?1 AND made = 1 AND label_key IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM mailbox_labels WHERE mailbox_id = ?1 AND label_key = made.label_key)`;

const statements = {
  there: statement<{ label: string }, [mailboxId: string, limit: number]>(
    `SELECT label FROM (${THERE}) ORDER BY key LIMIT ?2`,
  ),
  isThere: statement<{ label: string }, [mailboxId: string, key: string]>(
    `SELECT label FROM (${THERE}) WHERE key = ?2`,
  ),
  isUsed: statement<{ threads: number }, [mailboxId: string, key: string]>(
    "SELECT threads FROM mailbox_labels WHERE mailbox_id = ? AND label_key = ?",
  ),
  byKey: statement<LabelRow, [mailboxId: string, key: string]>(
    `${SELECT_LABEL} WHERE imap_labels.mailbox_id = ? AND imap_labels.label_key = ?`,
  ),
  byId: statement<LabelRow, [id: number]>(
    `${SELECT_LABEL} WHERE imap_labels.id = ? AND imap_labels.label_key IS NOT NULL`,
  ),
  beginToFollow: statement<unknown, [mailboxId: string]>(
    `UPDATE imap_folders SET labelled_through = modseq WHERE mailbox_id = ?1
       AND NOT EXISTS (SELECT 1 FROM imap_labels WHERE mailbox_id = ?1 AND label_key IS NOT NULL)`,
  ),

  listLabelMail: statement<{ seq: number; filedAt: number }, [threadSeqs: string, after: number]>(
    `SELECT message_seq AS seq, filed_at AS filedAt FROM json_each(?1) AS given
       CROSS JOIN imap_messages ON message_seq BETWEEN max(given.value * 65536, ?2 + 1) AND given.value * 65536 + 65535
       CROSS JOIN messages ON messages.seq = message_seq LIMIT ${PORTION}`,
  ),
  // What has left meanwhile, or is there already, is left out.
  add: statement<unknown, [labelId: number, seqs: string]>(
    `INSERT INTO imap_labelled (label_id, uid, message_seq, modseq, folder_id, folder_uid)
     SELECT imap_labels.id, imap_labels.uid_next + given.key, message_seq, imap_labels.modseq, folder_id, imap_messages.uid
     FROM json_each(?2) AS given CROSS JOIN imap_messages ON message_seq = given.value
       CROSS JOIN imap_folders ON imap_folders.id = folder_id CROSS JOIN imap_labels ON imap_labels.id = ?1
     WHERE folder NOT IN ('trash', 'spam') AND EXISTS (
       SELECT 1 FROM thread_labels WHERE thread_seq = message_seq / 65536 AND thread_labels.label_key = imap_labels.label_key)
     ON CONFLICT (message_seq, label_id) DO NOTHING`,
  ),
  nthChanged: statement<{ modseq: number }, [folderId: number, after: number]>(
    `SELECT modseq FROM imap_messages INDEXED BY imap_messages_by_uid WHERE folder_id = ? AND modseq > ?
     ORDER BY modseq LIMIT 1 OFFSET ${MOST_FOUND}`,
  ),
  nthVanished: statement<{ modseq: number }, [folderId: number, after: number]>(
    `SELECT modseq FROM imap_vanished WHERE folder_id = ? AND modseq > ? ORDER BY modseq LIMIT 1 OFFSET ${MOST_FOUND}`,
  ),
  changed: statement<{ seq: number }, [folderId: number, after: number, through: number]>(
    `SELECT message_seq AS seq FROM imap_messages INDEXED BY imap_messages_by_uid
     WHERE folder_id = ? AND modseq > ? AND modseq <= ?`,
  ),
  vanished: statement<{ seq: number }, [folderId: number, after: number, through: number]>(
    `SELECT message_seq AS seq FROM imap_vanished CROSS JOIN imap_labelled
       ON imap_labelled.folder_id = imap_vanished.folder_id AND folder_uid = imap_vanished.uid
     WHERE imap_vanished.folder_id = ? AND imap_vanished.modseq > ? AND imap_vanished.modseq <= ?`,
  ),
  displaced: statement<{ seq: number }, [folderId: number]>(
    `SELECT message_seq AS seq FROM imap_labelled WHERE folder_id = ? AND NOT EXISTS (
       SELECT 1 FROM imap_messages WHERE imap_messages.message_seq = imap_labelled.message_seq
         AND imap_messages.folder_id = imap_labelled.folder_id AND imap_messages.uid = folder_uid)`,
  ),
  follow: statement<unknown, [through: number, folderId: number]>(
    "UPDATE imap_folders SET labelled_through = max(labelled_through, ?) WHERE id = ?",
  ),
  weights: statement<{ seq: number; weight: number }, [seqs: string]>(
    `SELECT value AS seq, 1 + (SELECT count(*) FROM imap_labelled WHERE message_seq = value)
       + (SELECT count(*) FROM thread_labels WHERE thread_seq = value / 65536) AS weight FROM json_each(?)`,
  ),
  had: statement<Membership & { uid: number; wasDraft: number }, [seqs: string]>(
    `SELECT label_id AS labelId, message_seq AS seq, imap_labelled.uid, folder_id AS folderId, folder_uid AS folderUid,
       imap_folders.folder = 'drafts' AS wasDraft
     FROM json_each(?1) AS given CROSS JOIN imap_labelled ON message_seq = given.value
       CROSS JOIN imap_labels ON imap_labels.id = label_id CROSS JOIN imap_folders ON imap_folders.id = folder_id
     WHERE label_key IS NOT NULL`,
  ),
  wanted: statement<Membership, [seqs: string]>(
    `SELECT imap_labels.id AS labelId, message_seq AS seq, folder_id AS folderId, imap_messages.uid AS folderUid
     FROM json_each(?1) AS given CROSS JOIN imap_messages ON message_seq = given.value
       CROSS JOIN imap_folders ON imap_folders.id = folder_id CROSS JOIN thread_labels ON thread_labels.thread_seq = message_seq / 65536
       CROSS JOIN imap_labels ON imap_labels.mailbox_id = imap_folders.mailbox_id
         AND imap_labels.label_key = thread_labels.label_key
       CROSS JOIN messages ON messages.seq = message_seq
     WHERE imap_folders.folder NOT IN ('trash', 'spam') ORDER BY filed_at, message_seq`,
  ),
  bury: statement<unknown, [labelId: number, uids: string]>(
    `INSERT INTO imap_label_vanished (label_id, modseq, uid)
     SELECT imap_labels.id, modseq, value FROM json_each(?2) CROSS JOIN imap_labels WHERE imap_labels.id = ?1`,
  ),
  remove: statement<unknown, [labelId: number, uids: string]>(
    "DELETE FROM imap_labelled WHERE label_id = ? AND uid IN (SELECT value FROM json_each(?))",
  ),
  touch: statement<unknown, [labelId: number, uids: string]>(
    `UPDATE imap_labelled SET modseq = (SELECT modseq FROM imap_labels WHERE id = ?1),
       (folder_id, folder_uid) = (SELECT folder_id, uid FROM imap_messages WHERE message_seq = imap_labelled.message_seq)
     WHERE label_id = ?1 AND uid IN (SELECT value FROM json_each(?2))`,
  ),
  setDeleted: statement<unknown, [labelId: number, deleted: number, seqs: string]>(
    `UPDATE imap_labelled SET deleted = ?2, modseq = (SELECT modseq FROM imap_labels WHERE id = ?1)
     WHERE label_id = ?1 AND deleted <> ?2 AND message_seq IN (SELECT value FROM json_each(?3))`,
  ),

  following: statement<{ id: number; mailboxId: string; key: string }, []>(
    "SELECT id, mailbox_id AS mailboxId, label_key AS key FROM imap_labels WHERE label_key IS NOT NULL",
  ),
  someOfGone: statement<unknown, [limit: number]>(
    `DELETE FROM imap_labelled WHERE (label_id, uid) IN (SELECT label_id, uid FROM imap_labels CROSS JOIN imap_labelled
       ON label_id = id WHERE label_key IS NULL LIMIT ?)`,
  ),
  deleteSomeLabelled: statement<unknown, [mailboxId: string, limit: number]>(
    `DELETE FROM imap_labelled WHERE (label_id, uid) IN (SELECT label_id, uid FROM imap_labels CROSS JOIN imap_labelled
       ON label_id = id WHERE mailbox_id = ? LIMIT ?)`,
  ),
  deleteSomeVanished: statement<unknown, [mailboxId: string, limit: number]>(
    `DELETE FROM imap_label_vanished WHERE (label_id, modseq, uid) IN (SELECT label_id, gone.modseq, gone.uid
       FROM imap_labels CROSS JOIN imap_label_vanished AS gone ON label_id = id WHERE mailbox_id = ? LIMIT ?)`,
  ),
  someForgotten: statement<unknown, [limit: number]>(
    `DELETE FROM imap_label_vanished WHERE (label_id, modseq, uid) IN (SELECT label_id, gone.modseq, gone.uid
       FROM imap_labels CROSS JOIN imap_label_vanished AS gone ON label_id = id
         AND gone.modseq <= iif(label_key IS NULL, imap_labels.modseq, imap_labels.vanished_through) LIMIT ?)`,
  ),
};

const queries = prepared((db) => ({
  wants: db
    .select({ wants: users.labelFolders })
    .from(users)
    .where(eq(users.id, sql.placeholder("userId")))
    .prepare(),

  stale: db
    .select()
    .from(imapFolders)
    .where(
      and(
        eq(imapFolders.mailboxId, sql.placeholder("mailboxId")),
        sql`${imapFolders.modseq} <> ${imapFolders.labelledThrough}`,
      ),
    )
    .prepare(),
}));

/** A message in the mailbox of a label, and where it is otherwise. `labelId`: imap_labels.id. */
interface Membership {
  labelId: number;
  seq: number;
  folderId: number;
  folderUid: number;
}

/** Whether a person's mail apps see labels as mailboxes. */
export const wantsLabelFolders = (db: Db, userId: string): boolean => queries(db).wants.get({ userId })?.wants ?? false;

/** The labels that have mailboxes, or would if somebody looked, by name. */
export const listLabelsWithFolders = (db: Db, mailboxId: string, limit: number): string[] =>
  statements
    .there(db)
    .all(mailboxId, limit)
    .map(({ label }) => label);

/** A label that has a mailbox, as it is written there; undefined if there is none. */
export const findLabelWithFolder = (db: Db, mailboxId: string, label: string): string | undefined =>
  statements.isThere(db).get(mailboxId, labelKey(label))?.label;

function requireManaged(tx: Tx, caller: Caller, mailboxId: string): void {
  const reach = findReach(tx, caller, mailboxId);
  if (!reach) throw outOfReachError("mailbox");
  requireAccess(reach, "manage");
}

/**
 * Makes the mailbox of a label that no conversation need have. The folders have been opened. `now`: epoch ms. @throws AppError
 * not_found, forbidden
 */
export function makeLabelFolder(tx: Tx, caller: Caller, mailboxId: string, label: string, now: number): void {
  requireManaged(tx, caller, mailboxId);
  open(tx, mailboxId, label);
  tx.update(imapLabels)
    .set({ made: true })
    .where(and(eq(imapLabels.mailboxId, mailboxId), eq(imapLabels.labelKey, labelKey(label))))
    .run();
  addJournalEntry(tx, caller, { ids: [], changes: 1 }, now);
}

/**
 * Renames a label that has a mailbox, or removes it, with all that its conversations have of it there. @throws AppError
 * not_found, forbidden
 */
export async function renameLabelFolder(
  core: Core,
  caller: Caller,
  { mailboxId, label, to }: { mailboxId: string; label: string; to: string | undefined },
): Promise<void> {
  if (statements.isUsed(core.db).get(mailboxId, labelKey(label))) {
    await replaceLabel(core, caller, { label, replacement: to, mailboxId });
    return;
  }
  await core.store.enqueue((tx) => {
    requireManaged(tx, caller, mailboxId);
    moveLabelFolder(tx, mailboxId, labelKey(label), to);
    addJournalEntry(tx, caller, { ids: [], changes: 1 }, core.now());
  });
}

function open(tx: Tx, mailboxId: string, label: string): void {
  statements.beginToFollow(tx).run(mailboxId);
  tx.insert(imapLabels)
    .values({
      mailboxId,
      labelKey: labelKey(label),
      label,
      made: false,
      filled: false,
      uidNext: 1,
      modseq: 1,
      vanishedThrough: 0,
    })
    .onConflictDoNothing()
    .run();
}

function add(tx: Tx, labelId: number, seqs: readonly number[]): void {
  labelNumbers.bump(tx).run(labelId);
  statements.add(tx).run(labelId, JSON.stringify(seqs));
  labelNumbers.advance(tx).run(seqs.length, labelId);
}

/** A portion of what has changed in the folders of a mailbox. */
interface Changes {
  /** messages.seq */
  seqs: number[];
  /** The modification sequence up to which `seqs` has all changes, by imap_folders.id. */
  through: Map<number, number>;
  isMore: boolean;
}

function changesIn(db: Db, mailboxId: string): Changes {
  const seqs = new Set<number>();
  const changes: Changes = { seqs: [], through: new Map(), isMore: false };
  for (const { id, modseq, labelledThrough, vanishedThrough } of queries(db).stale.all({ mailboxId })) {
    const portions = [statements.nthChanged(db), statements.nthVanished(db)].map(
      (nth) => nth.get(id, labelledThrough)?.modseq ?? modseq,
    );
    const through = Math.min(...portions);
    for (const { seq } of statements.changed(db).all(id, labelledThrough, through)) seqs.add(seq);
    const left =
      labelledThrough < vanishedThrough
        ? statements.displaced(db).all(id)
        : statements.vanished(db).all(id, labelledThrough, through);
    for (const { seq } of left) seqs.add(seq);
    changes.through.set(id, through);
    changes.isMore ||= through < modseq;
  }
  changes.seqs = [...seqs];
  return changes;
}

/** Splits messages into portions that can each be compared in one transaction. The last portion may be empty. */
async function lightPortions(db: Db, seqs: readonly number[]): Promise<number[][]> {
  const portions: number[][] = [[]];
  let left = MOST_COMPARED;
  for (let next = 0; next < seqs.length; next += PORTION) {
    for (const { seq, weight } of statements.weights(db).all(JSON.stringify(seqs.slice(next, next + PORTION)))) {
      portions.at(-1)?.push(seq);
      left -= weight;
      if (left > 0) continue;
      portions.push([]);
      left = MOST_COMPARED;
    }
    await letOthersRun();
  }
  return portions;
}

/** All changes through those have been compared. */
function follow(tx: Tx, { through }: Changes): void {
  for (const [id, modseq] of through) statements.follow(tx).run(modseq, id);
}

/**
 * Brings the mailboxes of labels up to date with messages (messages.seq) of one mailbox, as these are now. Of what is added,
 * `first` comes first, in that order.
 */
function compare(tx: Tx, seqs: readonly number[], first: readonly number[]): void {
  const given = JSON.stringify(seqs);
  const membershipKey = ({ labelId, seq }: Membership): string => `${labelId} ${seq}`;
  const present = statements.had(tx).all(given);
  const now = new Map(
    statements
      .wanted(tx)
      .all(given)
      .map((one) => [membershipKey(one), one]),
  );
  const labels = new Map<number, { gone: number[]; unchanged: number[]; added: number[] }>();
  const getLabelChanges = ({ labelId }: Membership) => {
    const changes = labels.get(labelId) ?? { gone: [], unchanged: [], added: [] };
    labels.set(labelId, changes);
    return changes;
  };
  const unchanged = new Set<string>();
  for (const one of present) {
    const other = now.get(membershipKey(one));
    const isSame = other && (!one.wasDraft || (other.folderId === one.folderId && other.folderUid === one.folderUid));
    if (isSame) unchanged.add(membershipKey(one));
    getLabelChanges(one)[isSame ? "unchanged" : "gone"].push(one.uid);
  }
  for (const [key, one] of now) if (!unchanged.has(key)) getLabelChanges(one).added.push(one.seq);
  for (const [labelId, changes] of labels) {
    const gone = JSON.stringify(changes.gone);
    labelNumbers.bump(tx).run(labelId);
    statements.bury(tx).run(labelId, gone);
    statements.remove(tx).run(labelId, gone);
    statements.touch(tx).run(labelId, JSON.stringify(changes.unchanged));
    const added = new Set(changes.added);
    const firstAdded = first.filter((seq) => added.delete(seq));
    if (changes.added.length > 0) add(tx, labelId, [...firstAdded, ...added]);
  }
}

/** Brings the mailboxes of the labels of a mailbox up to date within a transaction that changes little; see compare. */
function updateLabels(tx: Tx, mailboxId: string, first: readonly number[]): void {
  for (let isMore = true; isMore; ) {
    const changes = changesIn(tx, mailboxId);
    compare(tx, changes.seqs, first);
    follow(tx, changes);
    isMore = changes.isMore;
  }
}

/** Sets and takes away flags of messages (messages.seq) in the mailbox of a label; returns how many changed. */
function setLabelFlags(tx: Tx, id: number, seqs: readonly number[], { add, remove }: FlagChange): number {
  const { deleted } = IMAP_FLAGS;
  let changed = 0;
  if ((add | remove) & deleted) {
    labelNumbers.bump(tx).run(id);
    changed += statements.setDeleted(tx).run(id, Number((add & deleted) !== 0), JSON.stringify(seqs)).changes;
  }
  if ((add | remove) & ~deleted)
    changed += setImapFlagsInAllFolders(tx, seqs, { add: add & ~deleted, remove: remove & ~deleted });
  return changed;
}

/** Removes a portion of what is kept for the labels of a mailbox; returns how much. */
export const deleteLabelFolderPortion = (tx: Tx, mailboxId: string, limit: number): number =>
  statements.deleteSomeLabelled(tx).run(mailboxId, limit).changes ||
  statements.deleteSomeVanished(tx).run(mailboxId, limit).changes;

export function createLabelFolders(
  { db, store: { enqueue } }: Core,
  folderOpened: (mailboxId: string, folder: Folder) => Promise<unknown>,
) {
  /** Filling under way by imap_labels.id: several sessions may wait for one. */
  const filling = new Map<number, Promise<void>>();
  /** Comparison under way by mailbox id, so that no two run at once: sessions would be told twice about their changes. */
  const settling = new Map<string, Promise<void>>();

  /** messages.seq of all mail of a label, in order of arrival. */
  async function listLabelMail(mailboxId: string, label: string): Promise<number[]> {
    const found: { seq: number; filedAt: number }[] = [];
    for await (let threads of threadsLabelledIn(db, mailboxId, label)) {
      for (let after: number | undefined = 0; after !== undefined; ) {
        const page = statements.listLabelMail(db).all(JSON.stringify(threads), after);
        for (const one of page) found.push(one);
        after = page.length < PORTION ? undefined : page.at(-1)?.seq;
        const thread = toThreadSeq(after ?? 0);
        threads = threads.filter((seq) => seq >= thread);
        await letOthersRun();
      }
    }
    return found.sort((a, b) => a.filedAt - b.filedAt || a.seq - b.seq).map(({ seq }) => seq);
  }

  /** Meanwhile the label is followed already; one that has got another name is to be filled again. */
  async function fill({ id, mailboxId, label }: LabelRow): Promise<void> {
    const seqs = await listLabelMail(mailboxId, label);
    for (let next = 0; next < seqs.length; next += PORTION) {
      await enqueue((tx) => add(tx, id, seqs.slice(next, next + PORTION)));
    }
    const isSame = and(eq(imapLabels.id, id), eq(imapLabels.labelKey, labelKey(label)));
    await enqueue((tx) => void tx.update(imapLabels).set({ filled: true }).where(isSame).run());
  }

  function filled(row: LabelRow): Promise<void> {
    const present = filling.get(row.id);
    if (present) return present;
    const work = fill(row).finally(() => filling.delete(row.id));
    filling.set(row.id, work);
    return work;
  }

  async function updateSome(mailboxId: string): Promise<void> {
    const changes = changesIn(db, mailboxId);
    const portions = await lightPortions(db, changes.seqs);
    for (const portion of portions) {
      await enqueue((tx) => {
        compare(tx, portion, []);
        if (portion === portions.at(-1)) follow(tx, changes);
      });
      await letOthersRun();
    }
  }

  /** While there is no room to note what has changed, as on a full disk, it is seen later. */
  async function updated(mailboxId: string): Promise<void> {
    try {
      while (queries(db).stale.get({ mailboxId })) {
        const work = settling.get(mailboxId) ?? updateSome(mailboxId).finally(() => settling.delete(mailboxId));
        settling.set(mailboxId, work);
        await work;
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
  }

  /** The mailbox of a label, as of the last look. */
  function toLabelFolder(row: LabelRow): ImapFolder {
    const { id, mailboxId, label } = row;
    return {
      ...numberedFolder(db, labelNumbers, row),
      objectId: `${mailboxId}_${id}`,
      label,
      present: () => presentLabel(id),
      updated: () => updated(mailboxId),
      update: (tx, first = []) => updateLabels(tx, mailboxId, first),
      listHoldingFolders: () => LABELLED.flatMap((folder) => mailFolder(db, mailboxId, folder) ?? []),
      setFlags: (tx, seqs, change) => setLabelFlags(tx, id, seqs, change),
    };
  }

  function presentLabel(id: number): ImapFolder | undefined {
    const row = statements.byId(db).get(id);
    return row ? toLabelFolder(row) : undefined;
  }

  return {
    /** The mailbox of a label once all of its mail has UIDs. The caller checks access and that the label is there. */
    async opened(mailboxId: string, label: string): Promise<ImapFolder> {
      for (const folder of FOLDERS) await folderOpened(mailboxId, folder);
      for (;;) {
        const found = statements.byKey(db).get(mailboxId, labelKey(label));
        if (!found) await enqueue((tx) => open(tx, mailboxId, label));
        else if (!found.filled) await filled(found);
        else {
          await updated(mailboxId);
          return presentLabel(found.id) ?? toLabelFolder(found);
        }
      }
    },
    /** Ends mailboxes of labels that are no longer there, and forgets what vanished long ago. `most`: UIDs of each. */
    async forget(most: number): Promise<void> {
      for (const { id, mailboxId, key } of statements.following(db).all()) {
        await enqueue((tx) => {
          if (!statements.isThere(tx).get(mailboxId, key)) return moveLabelFolder(tx, mailboxId, key, undefined);
          const last = labelNumbers.lastForgotten(tx).get(id, most);
          if (last) tx.update(imapLabels).set({ vanishedThrough: last.modseq }).where(eq(imapLabels.id, id)).run();
        });
      }
      while (await enqueue((tx) => statements.someOfGone(tx).run(PORTION).changes > 0));
      while (await enqueue((tx) => statements.someForgotten(tx).run(PORTION).changes > 0));
      await enqueue((tx) => void tx.delete(imapLabels).where(isNull(imapLabels.labelKey)).run());
    },
  };
}
