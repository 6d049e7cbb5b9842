/**
 * The octets of a message as IMAP serves them: the file of `/raw` (rules: Raw messages), with our Received and
 * Authentication-Results at the top of what arrived, and with the Bcc for its author alone. They are frozen when they are
 * first offered: size, digest and the version of the composer are kept, because mail apps keep what they fetched.
 *
 * Invariant: composers of older versions stay as they are. test/mailbox/octets.test.ts holds their digests.
 */
import { and, eq, inArray, sql } from "drizzle-orm";
import type { Log } from "../base/log.ts";
import { splitAddress } from "../message/address.ts";
import { dateHeader } from "../message/date.ts";
import { imapOctets, messageBodies, messages } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { composeStored } from "./messages.ts";

type Source = Pick<
  typeof messages.$inferSelect,
  "id" | "seq" | "kind" | "auth" | "bcc" | "filedAt" | "receivedOn" | "sentBy"
> & { text: string };
type Composer = (store: Pick<Store, "db" | "blobs">, source: Source, isAuthor: boolean) => Promise<Uint8Array>;

const composers: Readonly<Record<number, Composer>> = {
  1: async (store, source, isAuthor) => {
    const file = await composeStored(store, source, isAuthor ? source.bcc : []);
    return Buffer.concat([Buffer.from(traceOf(source)), file]);
  },
};
const COMPOSER = 1;

/** The fields of this server on what arrived at an address; "" for other mail. */
function traceOf({ id, auth, filedAt, receivedOn }: Source): string {
  if (receivedOn === null) return "";
  const { domain } = splitAddress(receivedOn);
  const received = `Received: by ${domain} with ESMTP id ${id}\r\n\tfor <${receivedOn}>; ${dateHeader(filedAt)}\r\n`;
  if (!auth) return received;
  const results = (["spf", "dkim", "dmarc"] as const).map((method) => `; ${method}=${auth[method]}`).join("");
  return `${received}Authentication-Results: ${domain}${results}\r\n`;
}

const statements = prepared((db) => ({
  source: db
    .select({
      id: messages.id,
      seq: messages.seq,
      kind: messages.kind,
      auth: messages.auth,
      bcc: messages.bcc,
      filedAt: messages.filedAt,
      receivedOn: messages.receivedOn,
      sentBy: messages.sentBy,
      text: messageBodies.text,
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(eq(messages.seq, sql.placeholder("seq")))
    .prepare(),
  frozen: db
    .select()
    .from(imapOctets)
    .where(and(eq(imapOctets.messageSeq, sql.placeholder("seq")), eq(imapOctets.author, sql.placeholder("author"))))
    .prepare(),
}));

/** The sizes that were frozen of these messages (messages.seq), as that person sees them. */
function frozenSizes(db: Db, seqs: readonly number[], userId: string): Map<number, number> {
  const rows = db
    .select({ seq: messages.seq, size: imapOctets.size })
    .from(imapOctets)
    .innerJoin(messages, eq(messages.seq, imapOctets.messageSeq))
    .where(
      and(
        inArray(imapOctets.messageSeq, sql`(select value from json_each(${JSON.stringify(seqs)}))`),
        sql`${imapOctets.author} = (${messages.bcc} <> '[]' and ${messages.sentBy} is ${userId})`,
      ),
    )
    .all();
  return new Map(rows.map(({ seq, size }) => [seq, size]));
}

export function createOctets({
  store,
  log,
}: {
  store: Pick<Store, "db" | "blobs" | "enqueue">;
  log: Pick<Log, "error">;
}) {
  const { db } = store;
  return {
    frozenSizes: (seqs: readonly number[], userId: string) => frozenSizes(db, seqs, userId),
    /**
     * The octets of a message (messages.seq) as that person sees them, frozen from now on; undefined if it is gone. The
     * caller checks access.
     */
    async read(seq: number, userId: string): Promise<Uint8Array | undefined> {
      const source = statements(db).source.get({ seq });
      if (!source) return undefined;
      const author = source.bcc.length > 0 && source.sentBy === userId;
      const frozen = statements(db).frozen.get({ seq, author });
      const composer = frozen?.composer ?? COMPOSER;
      const bytes = await (composers[composer] as Composer)(store, source, author);
      const digest = new Bun.CryptoHasher("sha256").update(bytes).digest();
      if (!frozen)
        await store.enqueue((tx) => freeze(tx, source, { author, size: bytes.byteLength, digest, composer }));
      else if (!frozen.digest.equals(digest)) {
        log.error("the octets of a message are no longer what a mail app was told", { emailId: source.id, composer });
      }
      return bytes;
    },
  };
}

/** Does nothing for a message that was deleted or written anew meanwhile. */
function freeze(tx: Tx, { seq, filedAt }: Source, row: Omit<typeof imapOctets.$inferSelect, "messageSeq">): void {
  const present = statements(tx).source.get({ seq });
  if (present?.filedAt !== filedAt) return;
  tx.insert(imapOctets)
    .values({ messageSeq: seq, ...row })
    .onConflictDoNothing()
    .run();
}
