/**
 * Suggests the people of a mailbox's latest conversations while somebody types. Never Bcc, because participants never
 * include it.
 */
import type { EmailAddress } from "../message/address.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

/** Limits on the conversations and people that are examined. */
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

/** Removes case and accents for comparison. */
const plain = (text: string): string => text.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();

/** Up to `limit` people whose address, or a word of whose name, begins with `text`; latest first. */
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
