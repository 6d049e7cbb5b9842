/**
 * Reads stored HTML for callers through a parser (message/reading.ts), including its visible text for models. Filing
 * stores these results with the message; results of an older version are renewed at the first read.
 */
import { and, eq, isNotNull, lt, or, sql } from "drizzle-orm";
import { type Caller, findReach } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import type { ForwardedMessage } from "../../message/composition.ts";
import type { DeceptiveLink } from "../../message/deceptive-links.ts";
import type { FramedMessage } from "../../message/frame.ts";
import { packText, type Reading, unpackText } from "../../message/reading.ts";
import { SANITIZER_VERSION } from "../../message/sanitize.ts";
import { htmlOfText } from "../../message/text.ts";
import { SEEN_VERSION, type SeenText, type VisibleHtml } from "../../message/visible.ts";
import { LONGEST_SURE } from "../../search/fold.ts";
import { readStoredMessages } from "../../search/stored.ts";
import { messageBodies, messages, threads } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Tx } from "../../store/store.ts";
import { toHtmlColumns, toVisibleTextColumns } from "../filing/prepare.ts";
import type { MailCore } from "../state/mail-core.ts";
import type { MessageView } from "../state/views.ts";
import { hasNoHtml } from "./messages.ts";

const isOld = or(lt(messageBodies.sanitizer, SANITIZER_VERSION), lt(messageBodies.seenVersion, SEEN_VERSION));

const isUnsafe = and(lt(messageBodies.sanitizer, SANITIZER_VERSION), isNotNull(messageBodies.html));

const statements = prepared((db) => ({
  seen: db
    .select({
      seq: messages.seq,
      mailboxId: messages.mailboxId,
      hasHtml: sql<boolean>`${messageBodies.htmlSource} is not null`.mapWith(Boolean),
      text: messageBodies.seenText,
      hidden: messageBodies.seenHidden,
      version: messageBodies.seenVersion,
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
  source: db
    .select({ mailboxId: messages.mailboxId, html: messageBodies.htmlSource })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
  body: db
    .select({
      mailboxId: messages.mailboxId,
      text: messageBodies.text,
      html: messageBodies.html,
      htmlSource: messageBodies.htmlSource,
      seenText: messageBodies.seenText,
      seenHidden: messageBodies.seenHidden,
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(eq(messages.seq, sql.placeholder("seq")))
    .prepare(),
  unsafeOne: db
    .select({ seq: messages.seq })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(and(eq(messages.id, sql.placeholder("id")), isUnsafe))
    .prepare(),
  unsafeOfThread: db
    .select({ seq: messages.seq })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(and(eq(threads.id, sql.placeholder("id")), isUnsafe))
    .prepare(),
}));

/** The fields of attachments that a frame needs, as cloneable data. */
const pickImageFields = (attachments: FramedMessage["attachments"]): FramedMessage["attachments"] =>
  attachments.map(({ id, contentId }) => ({ id, ...(contentId === undefined ? {} : { contentId }) }));

/** Indexes a message whose visible text has changed: a long one soon after the transaction. */
function index({ engine }: MailCore, tx: Tx, seq: number): void {
  for (const stored of readStoredMessages(tx, [seq])) {
    if (stored.size > LONGEST_SURE) engine.addLater(tx, seq);
    else engine.replace(tx, seq, stored, stored.fold());
  }
}

/**
 * Renews the stored results of a body from an older version; `onlySeen`: only if the visible text is another, for which
 * the rest is renewed as well. Resolves when that is stored, or cannot be: `stored` tells.
 */
async function renew(
  core: MailCore,
  seq: number,
  { onlySeen = false } = {},
): Promise<{ seen: SeenText; stored: Promise<void> } | undefined> {
  const { db, parser, store } = core;
  const body = statements(db).body.get({ seq });
  if (!body || body.html === null) return undefined;
  const { mailboxId, text } = body;
  // Only rows of earlier versions lack the source.
  const source = body.htmlSource ?? (typeof body.html === "string" ? packText(body.html) : body.html);
  const reading: Reading = { kind: "body", html: source, text };
  const { html, seen } = await parser.read(mailboxId, reading).catch((error) => {
    if (error instanceof AppError) throw error;
    // HTML that cannot be read is shown as text, and counts as hidden.
    return { html: htmlOfText(text), seen: { text: "", hidden: text.length, fromHtml: true } };
  });
  const { seenText = null, ...rest } = toVisibleTextColumns(text, seen);
  const before = body.seenText === null ? text : unpackText(body.seenText);
  const isSame = before === seen.text && body.seenHidden === seen.hidden;
  if (onlySeen && isSame) return { seen, stored: Promise.resolve() };
  // The draft may have changed meanwhile, hence isOld.
  const stored = store.note((tx) => {
    const renewed = tx
      .update(messageBodies)
      .set({
        ...toHtmlColumns(html),
        sanitizer: SANITIZER_VERSION,
        ...rest,
        seenText: seenText && Buffer.from(seenText),
      })
      .where(and(eq(messageBodies.messageSeq, seq), isOld))
      .returning({ seq: messageBodies.messageSeq })
      .all();
    if (renewed.length > 0 && before !== seen.text) index(core, tx, seq);
  });
  // A store that cannot write does not stop the reader.
  await stored.catch(() => {});
  return { seen, stored };
}

/** The visible text of a message, unmasked (masked-codes.ts); its whole text if it is out of reach. */
export async function readVisibleText(
  core: MailCore,
  caller: Caller,
  message: Pick<MessageView, "id" | "text">,
): Promise<SeenText> {
  const whole = { text: message.text, hidden: 0, fromHtml: false };
  if (hasNoHtml(message)) return whole;
  const row = statements(core.db).seen.get({ id: message.id });
  if (!row?.hasHtml || !findReach(core.db, caller, row.mailboxId)) return whole;
  if (row.version < SEEN_VERSION) return (await renew(core, row.seq))?.seen ?? whole;
  if (row.text === null) return { ...whole, hidden: row.hidden };
  return { text: unpackText(row.text), hidden: row.hidden, fromHtml: true };
}

/** Renews the visible text of a message (messages.seq), where it is another by the present rules. @throws what reading and writing throw */
export async function renewVisibleText(core: MailCore, seq: number): Promise<void> {
  await (await renew(core, seq, { onlySeen: true }))?.stored;
}

/** The sanitised, visible HTML of a message, unmasked (masked-codes.ts); undefined for a message out of reach. */
export async function readVisibleHtml(
  { db, parser }: MailCore,
  caller: Caller,
  message: Pick<MessageView, "id">,
): Promise<Pick<VisibleHtml, "html" | "hidden"> | undefined> {
  if (hasNoHtml(message)) return undefined;
  const row = statements(db).source.get({ id: message.id });
  if (!row?.html || !findReach(db, caller, row.mailboxId)) return undefined;
  return parser.read(row.mailboxId, { kind: "visible", html: row.html });
}

/** The links of a message that deceive its reader; none of one out of reach, or that cannot be read: its text is shown. */
export async function deceptiveLinks({ db, parser }: MailCore, caller: Caller, id: string): Promise<DeceptiveLink[]> {
  const row = statements(db).source.get({ id });
  if (!row?.html || !findReach(db, caller, row.mailboxId)) return [];
  return parser.read(row.mailboxId, { kind: "links", html: row.html }).catch((error) => {
    if (error instanceof AppError) throw error;
    return [];
  });
}

/** The HTML of a message as it is forwarded (message/composition.ts). */
export const renderForwardedHtml = ({ parser }: MailCore, caller: Caller, message: ForwardedMessage): Promise<string> =>
  parser.read(caller.userId, { kind: "forward", message });

/** The document that shows a message. `remote`: includes the URLs of its remote images, between NULs. */
export function renderMessageFrame(
  { parser }: MailCore,
  caller: Caller,
  { subject, text, html = "", attachments, links = true }: FramedMessage,
  { remote }: { remote: boolean },
): Promise<string> {
  const frame = (html: string) =>
    parser.read(caller.userId, {
      kind: "frame",
      message: { subject, text, html, attachments: pickImageFields(attachments), links },
      remote,
    });
  return frame(html).catch((error) => {
    if (error instanceof AppError) throw error;
    // HTML that cannot be read is shown as text.
    return frame("");
  });
}

/** The document in which the HTML of a draft is edited. */
export const renderDraftEditor = (
  { parser }: MailCore,
  caller: Caller,
  { html = "", attachments }: Pick<FramedMessage, "html" | "attachments">,
): Promise<string> =>
  parser.read(caller.userId, { kind: "editor", message: { html, attachments: pickImageFields(attachments) } });

/** Renews HTML that an older policy made safe, before it is read: of a message or a conversation, by id. */
export async function renewSanitizedHtml(core: MailCore, id: string): Promise<void> {
  const { unsafeOne, unsafeOfThread } = statements(core.db);
  for (const { seq } of [...unsafeOne.all({ id }), ...unsafeOfThread.all({ id })]) await renew(core, seq);
}
