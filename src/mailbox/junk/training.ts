/**
 * What teaches a mailbox's junk filter, and nothing else does: a conversation moved to spam (spam), moved from there to
 * the inbox or archived (ham), a message answered (ham). The only writer of message_judgements, with what was thought
 * of a message when it came.
 *
 * What a message was learned as is remembered, so that it counts once, and counts no more when its conversation is
 * moved back. Its tokens are not kept but made again from the stored message, which is the same as they are of a limited
 * beginning of it; a kilobyte a message would cost more than the millisecond that takes.
 */
import { unpackText } from "../../message/reading.ts";
import type { AuthVerdicts, FILED_FOR } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Tx } from "../../store/store.ts";
import type { PreparedMessage } from "../prepare.ts";
import { noteAnswered, senderOf } from "../senders.ts";
import { type JunkKind, learn, unlearn } from "./filter.ts";
import type { Scored } from "./score.ts";
import { LONGEST_TEXT, senderTokens, tokensOf } from "./tokens.ts";

/** What is thought of a message when it comes. */
export interface Judgement {
  /** Why it is filed to spam. */
  filedFor?: (typeof FILED_FOR)[number] | undefined;
  scored?: Scored | undefined;
}

/** Messages of a conversation that one move teaches: as long as they take, the event loop stands. */
const MOST_MESSAGES = 10;
/** Clues kept with a message. */
const MOST_CLUES = 10;

interface StoredRow {
  seq: number;
  from: string;
  replyTo: string;
  auth: string | null;
  messageId: string | null;
  subject: string;
  size: number;
  headers: string;
  text: string;
  trained: JunkKind | null;
}

const statements = prepared(({ $client: sqlite }) => {
  // substr counts characters, of which a string has as many code units at least: the limit of tokens.ts cuts the same.
  const stored = `SELECT messages.seq, messages."from", messages.reply_to AS replyTo, messages.auth,
      messages.message_id AS messageId, messages.subject, messages.size,
      message_bodies.headers, substr(message_bodies.text, 1, ${LONGEST_TEXT}) AS text, message_judgements.trained
    FROM messages JOIN message_bodies ON message_bodies.message_seq = messages.seq
      LEFT JOIN message_judgements ON message_judgements.message_seq = messages.seq
    WHERE messages.kind = 'received' AND messages.received_on IS NOT NULL`;
  return {
    record: sqlite.prepare<unknown, [number, string | null, number | null, string | null]>(
      "INSERT INTO message_judgements (message_seq, filed_for, score, clues) VALUES (?, ?, ?, ?)",
    ),
    setTrained: sqlite.prepare<unknown, [number, JunkKind | null]>(
      `INSERT INTO message_judgements (message_seq, trained) VALUES (?, ?)
       ON CONFLICT DO UPDATE SET trained = excluded.trained`,
    ),
    // Those that were learned as something else come first, so that moving back takes back.
    untaught: sqlite.prepare<StoredRow, [number, JunkKind | null]>(
      `${stored} AND messages.thread_seq = ?1 AND message_judgements.trained IS NOT ?2
       ORDER BY message_judgements.trained IS NOT NULL DESC, messages.date DESC, messages.seq DESC
       LIMIT ${MOST_MESSAGES}`,
    ),
    bySeq: sqlite.prepare<StoredRow, [number]>(`${stored} AND messages.seq = ?`),
    answered: sqlite.prepare<StoredRow, [string, string, number]>(
      `${stored} AND messages.mailbox_id = ? AND messages.message_id = ? AND messages.thread_seq = ? LIMIT 1`,
    ),
    files: sqlite.prepare<{ filename: string; contentType: string }, [number]>(
      `SELECT filename, content_type AS contentType FROM attachments WHERE message_seq = ? ORDER BY position LIMIT 20`,
    ),
    html: sqlite.prepare<{ source: Uint8Array | null }, [number]>(
      "SELECT html_source AS source FROM message_bodies WHERE message_seq = ?",
    ),
  };
});

/** Keeps what was thought of a message; nothing, if nothing was. */
export function recordJudgement(tx: Tx, messageSeq: number, { filedFor, scored }: Judgement): void {
  if (filedFor === undefined && scored === undefined) return;
  const clues = scored && JSON.stringify(scored.clues.slice(0, MOST_CLUES));
  statements(tx).record.run(messageSeq, filedFor ?? null, scored?.score ?? null, clues ?? null);
}

/** A conversation of a mailbox. */
interface Conversation {
  seq: number;
  mailboxId: string;
}

/** A message that was taught, as what, and what it had been taught as. */
export interface Taught {
  /** messages.seq */
  seq: number;
  before: JunkKind | null;
  after: JunkKind | null;
}

/** Teaches the filter the mail that came in a conversation, the newest of it; as undefined, takes back what it learned. */
export function teachConversation(tx: Tx, { seq, mailboxId }: Conversation, kind: JunkKind | undefined): Taught[] {
  return statements(tx)
    .untaught.all(seq, kind ?? null)
    .map((row) => {
      teach(tx, mailboxId, row, kind);
      return { seq: row.seq, before: row.trained, after: kind ?? null };
    });
}

/** Teaches messages again what they had been taught as, but for those that were taught something else since. */
export function teachBack(tx: Tx, mailboxId: string, taught: readonly Taught[]): void {
  for (const { seq, before, after } of taught) {
    const row = statements(tx).bySeq.get(seq);
    if (row && row.trained === after) teach(tx, mailboxId, row, before ?? undefined);
  }
}

/**
 * What somebody answers is wanted, and so is who wrote it. What a program answers by itself says nothing of either.
 * `now`: epoch ms.
 */
export function teachAnswered(
  tx: Tx,
  { seq, mailboxId }: Conversation,
  { inReplyTo, headers }: Pick<PreparedMessage, "inReplyTo" | "headers">,
  now: number,
): void {
  const isAutomatic = headers.some(([name, value]) => /^auto-submitted$/i.test(name) && !/^no\b/i.test(value));
  const row = isAutomatic || inReplyTo === undefined ? null : statements(tx).answered.get(mailboxId, inReplyTo, seq);
  if (!row) return;
  if (row.trained !== "ham") teach(tx, mailboxId, row, "ham");
  noteAnswered(tx, mailboxId, senderOf(JSON.parse(row.from), authOf(row)), now);
}

function teach(tx: Tx, mailboxId: string, row: StoredRow, kind: JunkKind | undefined): void {
  const tokens = tokensOfStored(tx, row);
  if (row.trained !== null) unlearn(tx, mailboxId, tokens, row.trained);
  if (kind !== undefined) learn(tx, mailboxId, tokens, kind);
  statements(tx).setTrained.run(row.seq, kind ?? null);
}

const authOf = ({ auth }: StoredRow): AuthVerdicts | null => (auth === null ? null : JSON.parse(auth));

function tokensOfStored(tx: Tx, row: StoredRow): string[] {
  const from = JSON.parse(row.from);
  const auth = authOf(row);
  const tokens = tokensOf({
    headers: JSON.parse(row.headers),
    from,
    replyTo: JSON.parse(row.replyTo),
    messageId: row.messageId ?? undefined,
    subject: row.subject,
    text: row.text,
    attachments: statements(tx).files.all(row.seq),
    size: row.size,
    html() {
      const source = statements(tx).html.get(row.seq)?.source;
      return source ? unpackText(source) : undefined;
    },
  });
  return [...tokens.split(" "), ...senderTokens(senderOf(from, auth), auth)];
}
