/**
 * The only events that teach a mailbox's junk filter: a conversation moved to spam (spam), moved from there to the
 * inbox or archived (ham), a message answered (ham). With classification.ts the only writer of message_judgements.
 *
 * The table remembers the kind that each message was learned as, so that it counts once, and no longer after its
 * conversation is moved back. Its tokens are not stored: the stored message gives the same ones, since they come from a
 * limited beginning of it. Storing a kilobyte per message would cost more than the millisecond that this takes.
 */
import { unpackText } from "../../message/reading.ts";
import type { AuthVerdicts } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Tx } from "../../store/store.ts";
import type { PreparedMessage } from "../filing/prepare.ts";
import { type JunkKind, trainJunkFilter, untrainJunkFilter } from "./junk-filter.ts";
import { noteSenderAnswered, readJunkSender } from "./senders.ts";
import { extractJunkTokens, LONGEST_TEXT, listSenderJunkTokens, MOST_FILES } from "./tokens.ts";

/** Messages of a conversation that one move teaches; the event loop is blocked meanwhile. */
const MOST_MESSAGES = 10;

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

// substr counts code points, and a text has at least as many UTF-16 units, which tokens.ts counts: nothing that it
// uses is cut.
const stored = `SELECT messages.seq, messages."from", messages.reply_to AS replyTo, messages.auth,
    messages.message_id AS messageId, messages.subject, messages.size,
    message_bodies.headers, substr(message_bodies.text, 1, ${LONGEST_TEXT}) AS text, message_judgements.trained
  FROM messages JOIN message_bodies ON message_bodies.message_seq = messages.seq
    LEFT JOIN message_judgements ON message_judgements.message_seq = messages.seq
  WHERE messages.kind = 'received' AND messages.received_on IS NOT NULL`;

const statements = {
  setTrained: statement<unknown, [number, JunkKind | null]>(
    `INSERT INTO message_judgements (message_seq, trained) VALUES (?, ?)
     ON CONFLICT DO UPDATE SET trained = excluded.trained`,
  ),
  // Messages learned as something else come first, so that moving back reverts them.
  untaught: statement<StoredRow, [number, JunkKind | null, among: string | null]>(
    `${stored} AND messages.thread_seq = ?1 AND message_judgements.trained IS NOT ?2
       AND (?3 IS NULL OR messages.seq IN (SELECT value FROM json_each(?3)))
     ORDER BY message_judgements.trained IS NOT NULL DESC, messages.date DESC, messages.seq DESC
     LIMIT ${MOST_MESSAGES}`,
  ),
  bySeq: statement<StoredRow, [number]>(`${stored} AND messages.seq = ?`),
  answered: statement<StoredRow, [string, string, number]>(
    `${stored} AND messages.mailbox_id = ? AND messages.message_id = ? AND messages.thread_seq = ? LIMIT 1`,
  ),
  files: statement<{ filename: string; contentType: string }, [number]>(
    `SELECT filename, content_type AS contentType FROM attachments WHERE message_seq = ? ORDER BY position LIMIT ${MOST_FILES}`,
  ),
  html: statement<{ source: Uint8Array | null }, [number]>(
    "SELECT html_source AS source FROM message_bodies WHERE message_seq = ?",
  ),
};

/** A conversation of a mailbox. */
interface Conversation {
  seq: number;
  mailboxId: string;
}

/** A taught message, with the kind that it counted as before and counts as now. */
export interface Taught {
  /** messages.seq */
  seq: number;
  before: JunkKind | null;
  after: JunkKind | null;
}

/**
 * Teaches the filter the newest received messages of a conversation, or of those with the messages.seq in `among`; with
 * undefined, unlearns them.
 */
export function trainJunkByConversation(
  tx: Tx,
  { seq, mailboxId }: Conversation,
  kind: JunkKind | undefined,
  among?: readonly number[],
): Taught[] {
  return statements
    .untaught(tx)
    .all(seq, kind ?? null, among ? JSON.stringify(among) : null)
    .map((row) => {
      teach(tx, mailboxId, row, kind);
      return { seq: row.seq, before: row.trained, after: kind ?? null };
    });
}

/** Restores the kinds that messages counted as, except those taught again since. */
export function revertTraining(tx: Tx, mailboxId: string, taught: readonly Taught[]): void {
  for (const { seq, before, after } of taught) {
    const row = statements.bySeq(tx).get(seq);
    if (row && row.trained === after) teach(tx, mailboxId, row, before ?? undefined);
  }
}

/** Teaches that an answered message and its sender are wanted. An automatic reply teaches nothing. `now`: epoch ms. */
export function trainAnsweredAsWanted(
  tx: Tx,
  { seq, mailboxId }: Conversation,
  { inReplyTo, headers }: Pick<PreparedMessage, "inReplyTo" | "headers">,
  now: number,
): void {
  const isAutomatic = headers.some(([name, value]) => /^auto-submitted$/i.test(name) && !/^no\b/i.test(value));
  const row = isAutomatic || inReplyTo === undefined ? null : statements.answered(tx).get(mailboxId, inReplyTo, seq);
  if (!row) return;
  if (row.trained !== "ham") teach(tx, mailboxId, row, "ham");
  noteSenderAnswered(tx, mailboxId, readJunkSender(JSON.parse(row.from), readAuthVerdicts(row)), now);
}

function teach(tx: Tx, mailboxId: string, row: StoredRow, kind: JunkKind | undefined): void {
  const tokens = tokensOfStored(tx, row);
  if (row.trained !== null) untrainJunkFilter(tx, mailboxId, tokens, row.trained);
  if (kind !== undefined) trainJunkFilter(tx, mailboxId, tokens, kind);
  statements.setTrained(tx).run(row.seq, kind ?? null);
}

const readAuthVerdicts = ({ auth }: StoredRow): AuthVerdicts | null => (auth === null ? null : JSON.parse(auth));

function tokensOfStored(tx: Tx, row: StoredRow): string[] {
  const from = JSON.parse(row.from);
  const auth = readAuthVerdicts(row);
  const tokens = extractJunkTokens({
    headers: JSON.parse(row.headers),
    from,
    replyTo: JSON.parse(row.replyTo),
    messageId: row.messageId ?? undefined,
    subject: row.subject,
    text: row.text,
    attachments: statements.files(tx).all(row.seq),
    size: row.size,
    html() {
      const source = statements.html(tx).get(row.seq)?.source;
      return source ? unpackText(source) : undefined;
    },
  });
  return [...tokens.split(" "), ...listSenderJunkTokens(readJunkSender(from, auth), auth)];
}
