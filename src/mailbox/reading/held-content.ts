/**
 * Tells what a message that waits for a person has beside its fields, text and files: fields of its header that readers rarely see,
 * people whom the header names and who do not get it, and whether its text part says something else than its HTML.
 */
import { sql } from "drizzle-orm";
import { decodeWords } from "../../message/headers.ts";
import { unpackText } from "../../message/reading.ts";
import { isReplyRedirectHeader } from "../../message/redirection.ts";
import { foldText } from "../../search/fold.ts";
import { findMissingPhrases } from "../../search/missing.ts";
import { holds, messageBodies, messages } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import type { HeldHeader } from "../state/views.ts";

/** Fields that are shown elsewhere, or that the server writes into each message. */
const SHOWN_ELSEWHERE = new Set("from to cc subject date message-id in-reply-to references".split(" "));

const statements = prepared((db) => ({
  header: db
    .select({ to: messages.to, cc: messages.cc, recipients: holds.recipients, headers: messageBodies.headers })
    .from(holds)
    .innerJoin(messages, sql`${messages.seq} = ${holds.messageSeq}`)
    .innerJoin(messageBodies, sql`${messageBodies.messageSeq} = ${holds.messageSeq}`)
    .where(sql`${holds.messageId} = ${sql.placeholder("emailId")}`)
    .prepare(),
  texts: db
    .select({ text: messageBodies.text, seen: messageBodies.seenText })
    .from(holds)
    .innerJoin(messageBodies, sql`${messageBodies.messageSeq} = ${holds.messageSeq}`)
    .where(sql`${holds.messageId} = ${sql.placeholder("emailId")}`)
    .prepare(),
}));

/** The header of a held message; empty for one that is none. */
export function heldHeader(db: Db, emailId: string): HeldHeader {
  const row = statements(db).header.get({ emailId });
  if (!row) return { headers: [], namedOnly: [] };
  const fields = row.headers
    .filter(([name]) => !SHOWN_ELSEWHERE.has(name.toLowerCase()))
    .map(([name, value]) => ({ name, value: decodeWords(value), redirects: isReplyRedirectHeader(name) }));
  const reached = new Set(row.recipients.map(({ email }) => email.toLowerCase()));
  return {
    headers: [...fields.filter(({ redirects }) => redirects), ...fields.filter(({ redirects }) => !redirects)],
    namedOnly: [...row.to, ...row.cc].filter(({ email }) => !reached.has(email.toLowerCase())),
  };
}

/** True if the text part of a held message says something else than its visible HTML: see hasTextMissingFromHtml. */
export function heldTextDiffers(db: Db, emailId: string): boolean {
  const { text = "", seen = null } = statements(db).texts.get({ emailId }) ?? {};
  // Without HTML, or where both are alike, nothing else is stored.
  return seen !== null && hasTextMissingFromHtml(text, unpackText(seen));
}

/** Longer texts are not compared; they count as something else. */
const LONGEST_COMPARED = 256 * 1024;

/**
 * True if a text has words, in their order, or links that the visible text of the HTML beside it lacks. `seen`: as visibleTextForModel gives it,
 * with each link behind its words.
 */
export function hasTextMissingFromHtml(text: string, seen: string): boolean {
  if (text.length > LONGEST_COMPARED || seen.length > LONGEST_COMPARED) return true;
  const [written, shown] = [linksIn(text), linksIn(seen)];
  const known = new Set(shown.links);
  return (
    written.links.some((link) => !known.has(link)) ||
    findMissingPhrases(foldText(shown.words), foldText(written.words)).length > 0
  );
}

const LINK = /https?:\/\/[^\s<>"]+/gi;

/** The links of a text, and what is left without them. */
function linksIn(text: string): { links: string[]; words: string } {
  const links: string[] = [];
  const words = text.replace(LINK, (link) => {
    links.push(link.replace(/[^\p{L}\p{N}]{1,10}$/u, ""));
    return " ";
  });
  return { links, words };
}
