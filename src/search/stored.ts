/** Reads stored messages and folds them for an index. */
import { asc, desc, eq, gt, inArray, lt, sql } from "drizzle-orm";
import { unpackText } from "../message/reading.ts";
import { attachments, mailboxes, messageBodies, messages } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import type { DocumentScope } from "./engine.ts";
import { foldDocument, foldDocumentInTurns, type IndexDocument } from "./fold.ts";

export interface StoredMessage extends DocumentScope {
  /** messages.seq */
  seq: number;
  /** Epoch ms. */
  date: number;
  /** Bytes. */
  size: number;
  hasAttachments: boolean;
  /** Folds on demand, because that costs more than reading. */
  fold(): IndexDocument;
  /** Folds like `fold`, but awaits `turn` after each piece of a long text. */
  foldInTurns(turn: () => Promise<void>): Promise<IndexDocument>;
  /** Folds only the beginning of the texts, which bounds the cost. */
  foldBeginning(): IndexDocument;
}

/** Limits of foldBeginning: UTF-16 units of a text, and entries of a list of addresses or names. */
const BEGINNING = 10_000;
const FIRST_ENTRIES = 20;

const statements = prepared((db) => {
  const rows = () =>
    db
      .select({
        seq: messages.seq,
        mailboxId: messages.mailboxId,
        workspaceId: mailboxes.workspaceId,
        date: messages.date,
        size: messages.size,
        hasAttachments: messages.hasAttachments,
        subject: messages.subject,
        from: messages.from,
        to: messages.to,
        cc: messages.cc,
        text: messageBodies.text,
        seenText: messageBodies.seenText,
      })
      .from(messages)
      .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
      .innerJoin(mailboxes, eq(mailboxes.id, messages.mailboxId));
  return {
    after: rows()
      .where(gt(messages.seq, sql.placeholder("after")))
      .orderBy(asc(messages.seq))
      .limit(sql.placeholder("limit"))
      .prepare(),
    before: rows()
      .where(lt(messages.seq, sql.placeholder("before")))
      .orderBy(desc(messages.seq))
      .limit(sql.placeholder("limit"))
      .prepare(),
    numbered: rows()
      .where(inArray(messages.seq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
      .prepare(),
    files: db
      .select({ messageSeq: attachments.messageSeq, filename: attachments.filename })
      .from(attachments)
      .where(inArray(attachments.messageSeq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
      .orderBy(asc(attachments.messageSeq), asc(attachments.position))
      .prepare(),
  };
});

type Row = ReturnType<ReturnType<typeof statements>["after"]["all"]>[number];

function withFiles(db: Db, rows: readonly Row[]): StoredMessage[] {
  const filenames = new Map<number, string[]>(rows.map(({ seq }) => [seq, []]));
  const seqs = JSON.stringify([...filenames.keys()]);
  for (const { messageSeq, filename } of statements(db).files.all({ seqs })) filenames.get(messageSeq)?.push(filename);
  return rows.map(
    ({ seq, workspaceId, mailboxId, date, size, hasAttachments, from, subject, text, seenText, to, cc }) => {
      const files = filenames.get(seq) ?? [];
      const seen = (): string => (seenText === null ? "" : unpackText(seenText));
      const whole = () => ({ subject, text, seen: seen(), from: [from], to, cc, filenames: files });
      return {
        seq,
        workspaceId,
        mailboxId,
        date,
        size,
        hasAttachments,
        fold: () => foldDocument(whole()),
        foldInTurns: (turn) => foldDocumentInTurns(whole(), turn),
        foldBeginning: () =>
          foldDocument({
            subject: subject.slice(0, BEGINNING),
            text: text.slice(0, BEGINNING),
            seen: seen().slice(0, BEGINNING),
            from: [from],
            to: to.slice(0, FIRST_ENTRIES),
            cc: cc.slice(0, FIRST_ENTRIES),
            filenames: files.slice(0, FIRST_ENTRIES),
          }),
      };
    },
  );
}

/** The next `limit` messages after the one numbered `after`, ascending. */
export const readStoredMessagesAfter = (db: Db, after: number, limit: number): StoredMessage[] =>
  withFiles(db, statements(db).after.all({ after, limit }));

/** The last `limit` messages before the one numbered `before`, descending. */
export const readStoredMessagesBefore = (db: Db, before: number, limit: number): StoredMessage[] =>
  withFiles(db, statements(db).before.all({ before, limit }));

/** The stored ones of these messages, unordered. */
export const readStoredMessages = (db: Db, seqs: readonly number[]): StoredMessage[] =>
  withFiles(db, statements(db).numbered.all({ seqs: JSON.stringify(seqs) }));
