/**
 * Whom a mailbox is in touch with: the people of its latest conversations, to be suggested while somebody types. Never
 * Bcc, which no conversation's participants contain.
 */
import type { EmailAddress } from "../message/address.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

/** Conversations, and people in them, that are looked at. */
const LATEST = 400;
const MOST_LOOKED_AT = 4_000;

const latest = prepared(({ $client: sqlite }) =>
  sqlite.prepare<EmailAddress & { name: string | null }, [string, number]>(
    `SELECT value ->> 'email' AS email, value ->> 'name' AS name
     FROM (SELECT participants FROM threads INDEXED BY threads_by_time
           WHERE mailbox_id = ? AND folder NOT IN ('trash', 'spam')
           ORDER BY last_message_at DESC, seq DESC LIMIT ?), json_each(participants)
     LIMIT ${MOST_LOOKED_AT}`,
  ),
);

/** What is compared: without case and accents. */
const plain = (text: string): string => text.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();

/** Up to `limit` people of whom the address, or a word of the name, begins with `text`; the latest first. */
export function findCorrespondents(db: Db, mailboxId: string, text: string, limit: number): EmailAddress[] {
  const begin = plain(text.trim());
  const found = new Map<string, EmailAddress>();
  for (const { email, name } of latest(db).all(mailboxId, LATEST)) {
    const key = email.toLowerCase();
    const known = found.get(key);
    if (known) {
      if (known.name === undefined && name !== null) known.name = name;
      continue;
    }
    if (found.size >= limit) continue;
    const words = name === null ? [] : [plain(name), ...plain(name).split(/[^\p{L}\p{N}]+/u)];
    if ([key, ...words].some((word) => word.startsWith(begin)))
      found.set(key, { email, ...(name !== null && { name }) });
  }
  return [...found.values()];
}
