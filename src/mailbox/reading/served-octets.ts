/**
 * The octets of a message as a person is served them (rules: Octets): those that were kept, or else those that are composed of
 * what the store has, with this server's fields at the top of what arrived. IMAP serves them, and so does the original.
 */
import { and, eq, sql } from "drizzle-orm";
import { type Caller, findReach, isKeyDeniedSignInCodes, outOfReachError } from "../../access/caller.ts";
import { PolicyRefusal } from "../../access/policy.ts";
import { splitAddress } from "../../message/address.ts";
import { dateHeader } from "../../message/date.ts";
import { attachments, imapOctets, messageBodies, messages } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import type { MailCore } from "../state/mail-core.ts";
import { COMPOSER, composeInParser, composeOctets, type KeptParts, type OctetsParts } from "./composers.ts";
import { describeKeptOctets, type KeptDescription, readKeptParts } from "./kept-octets.ts";
import { readStoredMessageParts, SMALL_MESSAGE } from "./messages.ts";

const queries = prepared((db) => ({
  sources: db
    .select({
      id: messages.id,
      seq: messages.seq,
      mailboxId: messages.mailboxId,
      auth: messages.auth,
      bcc: messages.bcc,
      filedAt: messages.filedAt,
      receivedOn: messages.receivedOn,
      sentBy: messages.sentBy,
      /** Bytes of the message's content: its text, HTML and files. */
      bytes: sql<number>`octet_length(${messageBodies.text}) + coalesce(octet_length(${messageBodies.htmlSource}), 0)
        + (select coalesce(sum(${attachments.size}), 0) from ${attachments} where ${attachments.messageSeq} = ${messages.seq})`,
      /** True if the message is its text alone, without HTML and files. */
      isPlain: sql<boolean>`${messageBodies.htmlSource} is null
        and not exists (select 1 from ${attachments} where ${attachments.messageSeq} = ${messages.seq})`.mapWith(
        Boolean,
      ),
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(sql`${messages.seq} in (select value from json_each(${sql.placeholder("seqs")}))`)
    .prepare(),
  text: db
    .select({ text: messageBodies.text })
    .from(messageBodies)
    .where(eq(messageBodies.messageSeq, sql.placeholder("seq")))
    .prepare(),
  seqOf: db
    .select({ seq: messages.seq })
    .from(messages)
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
  frozen: db
    .select()
    .from(imapOctets)
    .where(and(eq(imapOctets.messageSeq, sql.placeholder("seq")), eq(imapOctets.author, sql.placeholder("author"))))
    .prepare(),
}));

/** Properties of a message from which its octets are made. */
export type OctetsSource = ReturnType<ReturnType<typeof queries>["sources"]["all"]>[number];

/** Those of these messages (messages.seq) that are there. */
export const listOctetsSources = (db: Db, seqs: readonly number[]): OctetsSource[] =>
  queries(db).sources.all({ seqs: JSON.stringify(seqs) });

/** The fields of this server on what arrived at an address; "" for other mail. */
function formatComposedTrace({ id, auth, filedAt, receivedOn }: OctetsSource): string {
  if (receivedOn === null) return "";
  const { domain } = splitAddress(receivedOn);
  const received = `Received: by ${domain} with ESMTP id ${id}\r\n\tfor <${receivedOn}>; ${dateHeader(filedAt)}\r\n`;
  if (!auth) return received;
  const results = (["spf", "dkim", "dmarc"] as const).map((method) => `; ${method}=${auth[method]}`).join("");
  return `${received}Authentication-Results: ${domain}${results}\r\n`;
}

/** Message.id of octets that have these fields. */
export const findIdInOctets = (octets: Uint8Array): string | undefined =>
  /^Received: by \S+ with ESMTP id (\S+)\r\n/.exec(Buffer.from(octets.subarray(0, 1_000)).toString("latin1"))?.[1];

/** Reads what octets are composed of. `author`: with the Bcc. */
export const readOctetsParts = (
  db: Db,
  source: OctetsSource,
  { author, composer, text }: { author: boolean; composer: number; text?: string },
): OctetsParts => ({
  ...readStoredMessageParts(
    db,
    { ...source, text: text ?? queries(db).text.get({ seq: source.seq })?.text ?? "" },
    author ? source.bcc : [],
  ),
  trace: formatComposedTrace(source),
  composer,
});

/** A row of imap_octets. */
type FrozenOctets = typeof imapOctets.$inferSelect;

/** The octets of a message as a person is served them, before they are made. `author`: with what its author alone sees. */
export type ServedOctets = { author: boolean } & (
  | { kept: KeptDescription }
  /** `frozen`: what mail apps were told of them. */
  | { kept?: undefined; frozen: FrozenOctets | undefined }
);

/** Finds out which octets of a message a person is served. */
export function findServedOctets(db: Db, { seq, bcc, sentBy }: OctetsSource, userId: string): ServedOctets {
  const kept = describeKeptOctets(db, [seq], userId).get(seq);
  if (kept) return { kept, author: sentBy === userId };
  const author = bcc.length > 0 && sentBy === userId;
  return { author, frozen: queries(db).frozen.get({ seq, author }) };
}

/** True for octets that are made on the main thread when they are read. */
export const areSmallOctets = ({ bytes }: OctetsSource, { kept }: ServedOctets): boolean =>
  (kept?.size ?? bytes) <= SMALL_MESSAGE;

/** Reads what it takes to make octets. @throws DamagedSkeleton */
export const readServedParts = (db: Db, source: OctetsSource, served: ServedOctets): KeptParts | OctetsParts =>
  served.kept
    ? readKeptParts(db, served.kept)
    : readOctetsParts(db, source, { author: served.author, composer: served.frozen?.composer ?? COMPOSER });

/** A message byte for byte, as a download. */
export interface Original {
  filename: string;
  contentType: string;
  /** In a file's memory if it is large. */
  content: Uint8Array;
  /** SHA-256 of the content. */
  digest: Uint8Array;
}

/**
 * The message as the caller is served it over IMAP. @throws AppError not_found, PolicyRefusal for a key that reads no codes,
 * which are not masked in it; as composeOctets and composeInParser
 */
export async function getOriginal({ db, blobs, parser }: MailCore, caller: Caller, id: string): Promise<Original> {
  const [source] = listOctetsSources(
    db,
    queries(db)
      .seqOf.all({ id })
      .map(({ seq }) => seq),
  );
  if (!source || !findReach(db, caller, source.mailboxId)) throw outOfReachError("message");
  if (isKeyDeniedSignInCodes(caller)) {
    throw new PolicyRefusal(
      "forbidden",
      "The policy of this API key hides one-time codes, and an original has them: get the message, or its raw file",
    );
  }
  const served = findServedOctets(db, source, caller.userId);
  const parts = readServedParts(db, source, served);
  const { content, digest } = areSmallOctets(source, served)
    ? await composeOctets(parts, blobs.read)
    : await composeInParser(parser, parts, caller.userId);
  return { filename: `${id}.eml`, contentType: "message/rfc822", content: content.bytes, digest };
}
