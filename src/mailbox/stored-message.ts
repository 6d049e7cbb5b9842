/** Composes the RFC 5322 file of a message from what is stored: headers, text, HTML and attachments. */

import { asc, eq, sql } from "drizzle-orm";
import type { EmailAddress } from "../message/address.ts";
import { composeMessage } from "../message/compose.ts";
import { unpackText } from "../message/reading.ts";
import { attachments, messageBodies } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store } from "../store/store.ts";

export type AttachmentRow = typeof attachments.$inferSelect;

const statements = prepared((db) => ({
  source: db
    .select({ headers: messageBodies.headers, htmlSource: messageBodies.htmlSource })
    .from(messageBodies)
    .where(eq(messageBodies.messageSeq, sql.placeholder("seq")))
    .prepare(),
  attachments: db
    .select()
    .from(attachments)
    .where(eq(attachments.messageSeq, sql.placeholder("seq")))
    .orderBy(asc(attachments.position))
    .prepare(),
}));

/** The attachments of a message (messages.seq), in order. */
export const attachmentsOf = (db: Db, seq: number): AttachmentRow[] => statements(db).attachments.all({ seq });

/** Lines end in CRLF. `bcc`: the part that the reader may see. */
export async function composeStored(
  { db, blobs }: Pick<Store, "db" | "blobs">,
  { id, seq, text }: { id: string; seq: number; text: string },
  bcc: readonly EmailAddress[],
): Promise<Uint8Array> {
  const source = statements(db).source.get({ seq });
  return composeMessage({
    id,
    headers: [...(source?.headers ?? []), ...(bcc.length === 0 ? [] : [bccHeader(bcc)])],
    text,
    ...(source?.htmlSource ? { html: unpackText(source.htmlSource) } : {}),
    attachments: await Promise.all(
      attachmentsOf(db, seq).map(async ({ filename, contentType, inline, contentId, blob }) => ({
        filename,
        contentType,
        inline,
        ...(contentId === null ? {} : { contentId }),
        content: await blobs.read(blob),
      })),
    ),
  });
}

/** RFC 5322 §3.6.3. Names are quoted; composeMessage encodes characters outside ASCII. */
const bccHeader = (bcc: readonly EmailAddress[]): [name: string, value: string] => [
  "Bcc",
  bcc
    .map(({ email, name }) => (name === undefined ? email : `"${name.replace(/["\\]/g, "\\$&")}" <${email}>`))
    .join(", "),
];
