/**
 * Opens the mailboxes of IMAP: a folder has its UIDs (uids.ts) once it is first opened, and so has the mailbox of a label
 * (label-folders.ts). Mail that was there before gets its UIDs in portions, from a range that was kept free for it.
 */
import { eq, isNotNull, max } from "drizzle-orm";
import { letOthersRun } from "../../base/pause.ts";
import type { Job } from "../../base/scheduler.ts";
import type { Core } from "../../store/core.ts";
import { FOLDERS, type Folder, imapFolders } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { createLabelFolders } from "./label-folders.ts";
import { type ImapFolder, type MailFolder, mailFolder, mailNumbers, toMailFolder } from "./uids.ts";

/** Messages read, or given UIDs, at once: some 5 ms. */
const PORTION = 1_000;
/** Vanished UIDs kept for each folder; a client that was away for longer compares all UIDs. */
const MOST_VANISHED = 20_000;
const LOOK_MS = 3_600_000;
/** MODSEQ of mail that was there before the folder was opened. */
const FIRST_MODSEQ = 1;

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
  forget: statement<unknown, [folderId: number, through: number]>(
    "DELETE FROM imap_vanished WHERE folder_id = ? AND modseq <= ?",
  ),
};

const queries = prepared((db) => ({
  unfilled: db.select().from(imapFolders).where(isNotNull(imapFolders.fillNext)).prepare(),
  folders: db.select({ id: imapFolders.id }).from(imapFolders).prepare(),
}));

/** Gives the folders of a mailbox their rows, once. `now`: epoch ms. */
export function createImapFolderRows(tx: Tx, mailboxId: string, now: number): void {
  if (mailFolder(tx, mailboxId, "inbox")) return;
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
async function lackingIn(db: Db, { mailboxId, folder }: MailFolder): Promise<number[]> {
  const found: { seq: number; filedAt: number }[] = [];
  // A message may be of before 1970.
  for (let after = { date: Number.MIN_SAFE_INTEGER, seq: -1 }; ; ) {
    const page = statements.lacking(db).all(mailboxId, folder, after.date, after.seq);
    for (const { seq, filedAt, lacks } of page) if (lacks) found.push({ seq, filedAt });
    const last = page.at(-1);
    if (!last || page.length < PORTION) break;
    after = last;
    await letOthersRun();
  }
  return found.sort((a, b) => a.filedAt - b.filedAt || a.seq - b.seq).map(({ seq }) => seq);
}

export type ImapFolders = ReturnType<typeof createImapFolders>;

export function createImapFolders(core: Core) {
  const { db, store, now } = core;
  /** Filling under way by imap_folders.id: several sessions may wait for one. */
  const filling = new Map<number, Promise<void>>();

  async function fill(folder: MailFolder): Promise<void> {
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

  function filled(folder: MailFolder): Promise<void> {
    const present = filling.get(folder.id);
    if (present) return present;
    const work = fill(folder).finally(() => filling.delete(folder.id));
    filling.set(folder.id, work);
    return work;
  }

  async function folderOpened(mailboxId: string, folder: Folder): Promise<MailFolder> {
    for (;;) {
      const found = mailFolder(db, mailboxId, folder);
      if (found?.fillNext === null) return found;
      if (found) await filled(found);
      else await store.enqueue((tx) => createImapFolderRows(tx, mailboxId, now()));
    }
  }

  const labels = createLabelFolders(core, folderOpened);

  return {
    /**
     * A folder, or the mailbox of a label, once all of its mail has UIDs. The caller checks access, and that the label has a
     * mailbox. Rejects if the mailbox is gone.
     */
    opened: (mailboxId: string, folder: Folder | undefined, label = ""): Promise<ImapFolder> =>
      folder === undefined ? labels.opened(mailboxId, label) : folderOpened(mailboxId, folder),
    jobs: [
      {
        name: "number-mail",
        async runDue() {
          for (const row of queries(db).unfilled.all()) await filled(toMailFolder(db, row));
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
function forgetVanished(tx: Tx, folderId: number): void {
  const last = mailNumbers.lastForgotten(tx).get(folderId, MOST_VANISHED);
  if (!last) return;
  statements.forget(tx).run(folderId, last.modseq);
  tx.update(imapFolders).set({ vanishedThrough: last.modseq }).where(eq(imapFolders.id, folderId)).run();
}
