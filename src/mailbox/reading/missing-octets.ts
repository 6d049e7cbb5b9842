/**
 * Makes the octets that messages lack (rules: Octets): mail from before octets were kept, in the background and newest first;
 * drafts that are written here, and mail that no parser could read, once somebody asks for them. They are the file of `/raw`
 * under this server's fields. Of mail that was moved here, only what mail apps are told of its octets is made.
 */
import { sql } from "drizzle-orm";
import { AppError, isUnavailable, unavailable } from "../../base/errors.ts";
import type { Job } from "../../base/scheduler.ts";
import { splitAddress } from "../../message/address.ts";
import { dateHeader } from "../../message/date.ts";
import { LONGEST_STRUCTURE } from "../../message/imap-data.ts";
import { attachments, messageBodies, messages, octetsWaiting } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import { asUnavailable, type Db, type Tx } from "../../store/store.ts";
import { insertKeptOctets } from "../filing/filing-rows.ts";
import { type KeptOctets, LONGEST_KEPT } from "../filing/keep-octets.ts";
import { assignNewUids } from "../imap/uids.ts";
import type { MailCore } from "../state/mail-core.ts";
import type { OctetsParts } from "./composers.ts";
import { describeKeptOctets, describeUnwrittenOctets, type KeptDescription, readKeptParts } from "./kept-octets.ts";
import { readStoredMessageParts } from "./messages.ts";

/** Most messages, and bytes beyond the first, whose octets are made in one transaction. */
const PORTION = 64;
const PORTION_BYTES = 2 * 1024 * 1024;
/** More than a portion takes: the clock was set meanwhile. */
const MOST_REST_MS = 5_000;
/** Mail that lacks octets comes with a workspace; and a disk has room again some day. */
const LOOK_MS = 600_000;
/** Messages that are passed by, since a store lacks their files for a moment. */
const MOST_PASSED = 1_000;
/** Times that the octets of a draft are made while somebody writes it. */
const MOST_TRIES = 3;

const statements = {
  waiting: statement<{ seq: number }, [except: string]>(
    `SELECT message_seq AS seq FROM octets_waiting WHERE lost = 0 AND message_seq NOT IN (SELECT value FROM json_each(?))
     ORDER BY filed_at DESC, message_seq DESC LIMIT ${PORTION}`,
  ),
  count: statement<{ count: number }, [lost: 0 | 1]>("SELECT count(*) AS count FROM octets_waiting WHERE lost = ?"),
  wait: statement<unknown, [seqs: string]>(
    `INSERT INTO octets_waiting (message_seq, filed_at) SELECT seq, filed_at FROM messages
     WHERE seq IN (SELECT value FROM json_each(?)) AND kind <> 'draft'`,
  ),
  lose: statement<unknown, [seq: number]>(
    `INSERT INTO octets_waiting (message_seq, filed_at, lost) SELECT seq, filed_at, 1 FROM messages WHERE seq = ?
     ON CONFLICT (message_seq) DO UPDATE SET lost = 1`,
  ),
  ready: statement<unknown, [seq: number]>("DELETE FROM octets_waiting WHERE message_seq = ?"),
  told: statement<{ author: 0 | 1; digest: Uint8Array }, [seq: number]>(
    "SELECT author, digest FROM imap_octets WHERE message_seq = ?",
  ),
  forgetTold: statement<unknown, [seq: number]>("DELETE FROM imap_octets WHERE message_seq = ?"),
  tell: statement<unknown, [envelope: string | null, structure: string | null, seq: number]>(
    "UPDATE message_octets SET envelope = ?, structure = ? WHERE message_seq = ?",
  ),
};

const queries = prepared((db) => ({
  sources: db
    .select({
      id: messages.id,
      seq: messages.seq,
      auth: messages.auth,
      bcc: messages.bcc,
      filedAt: messages.filedAt,
      receivedOn: messages.receivedOn,
      sentBy: messages.sentBy,
      /** Bytes of its text, HTML and files. */
      bytes: sql<number>`octet_length(${messageBodies.text}) + coalesce(octet_length(${messageBodies.htmlSource}), 0)
        + (select coalesce(sum(${attachments.size}), 0) from ${attachments} where ${attachments.messageSeq} = ${messages.seq})`,
      /** True for octets that could not be made before. */
      isLost: sql<boolean>`exists (select 1 from ${octetsWaiting} where ${octetsWaiting.messageSeq} = ${messages.seq}
        and ${octetsWaiting.lost})`.mapWith(Boolean),
      /** Differs once the message has been written anew. */
      version: sql<string>`${messages.filedAt} || ' ' || ${messages.size} || coalesce((select group_concat(${attachments.id})
        from ${attachments} where ${attachments.messageSeq} = ${messages.seq}), '')`,
    })
    .from(messages)
    .innerJoin(messageBodies, sql`${messageBodies.messageSeq} = ${messages.seq}`)
    .where(sql`${messages.seq} in (select value from json_each(${sql.placeholder("seqs")}))`)
    .prepare(),
  text: db
    .select({ text: messageBodies.text })
    .from(messageBodies)
    .where(sql`${messageBodies.messageSeq} = ${sql.placeholder("seq")}`)
    .prepare(),
}));

/** Properties of a message of which its octets are made. */
type OctetsSource = ReturnType<ReturnType<typeof queries>["sources"]["all"]>[number];

const listSources = (db: Db, seqs: readonly number[]): OctetsSource[] =>
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

/** Message.id in octets that were composed under the fields of this server; undefined for others. */
export const findIdInOctets = (octets: Uint8Array): string | undefined =>
  /^Received: by \S+ with ESMTP id (\S+)\r\n/.exec(Buffer.from(octets.subarray(0, 1_000)).toString("latin1"))?.[1];

/** With the Bcc of a message that somebody sent, which is hidden from everybody else. */
function readOctetsParts(db: Db, source: OctetsSource): OctetsParts {
  const text = queries(db).text.get({ seq: source.seq })?.text ?? "";
  const bcc = source.sentBy === null ? [] : source.bcc;
  return { ...readStoredMessageParts(db, { ...source, text }, bcc), trace: formatComposedTrace(source) };
}

/** Result of making what a message lacks, and how it is written. `octets`: absent if it has some already. */
interface Made {
  write(tx: Tx): void;
  octets?: KeptOctets;
}

/** Makes what a message lacks, for `owner` (an id) who waits for it. @throws AppError server_error, 503 if it cannot be done now */
async function makeOctets(core: MailCore, source: OctetsSource, owner?: string): Promise<Made> {
  const { db, parser, log } = core;
  const { seq, id, isLost } = source;
  try {
    const kept = describeKeptOctets(db, [seq], "").get(seq);
    if (kept) return await describeAnew(core, kept);
    const octets = await parser.keepComposed(readOctetsParts(db, source), owner);
    return { octets, write: (tx) => keepMade(core, tx, source, octets) };
  } catch (failure) {
    const error = asUnavailable(failure);
    if (isUnavailable(error)) throw error;
    if (!isLost) log.error("the octets of a message cannot be made for mail apps", { emailId: id, error });
    throw new AppError("server_error", "The message cannot be read", { cause: error });
  }
}

/** Reads what mail apps are told of kept octets. The author of a message with a Bcc is told another structure, maybe. */
async function describeAnew({ db, parser }: MailCore, kept: KeptDescription): Promise<Made> {
  if (kept.envelope !== null || kept.structure !== null)
    return { write: (tx) => void statements.ready(tx).run(kept.seq) };
  const { envelope, structure } = await parser.composeStored(readKeptParts(db, kept));
  const hasBcc = kept.hidden.some(([, , why]) => why === "bcc");
  const isLong = structure.length > LONGEST_STRUCTURE;
  return {
    write(tx) {
      statements.ready(tx).run(kept.seq);
      statements
        .tell(tx)
        .run(envelope.length > LONGEST_KEPT ? null : envelope, hasBcc || isLong ? null : structure, kept.seq);
    },
  };
}

/** Does nothing for a message that was deleted or written anew meanwhile, or has octets by now. */
function keepMade({ log }: MailCore, tx: Tx, { seq, id, version }: OctetsSource, octets: KeptOctets): void {
  const [present] = listSources(tx, [seq]);
  if (present?.version !== version || describeKeptOctets(tx, [seq], "").size > 0) return;
  insertKeptOctets(tx, seq, octets);
  const { digest, servedDigest = digest } = octets;
  const isOther = statements
    .told(tx)
    .all(seq)
    .some((told) => Buffer.compare(told.digest, told.author ? digest : servedDigest) !== 0);
  if (isOther) {
    log.warn("a message is no longer what mail apps were told, and gets another UID", { emailId: id });
    assignNewUids(tx, [seq]);
  }
  statements.forgetTold(tx).run(seq);
  statements.ready(tx).run(seq);
}

/** Has what these messages (messages.seq) lack made later, in the transaction that brings them. */
export const makeOctetsLater = (tx: Tx, seqs: readonly number[]): void =>
  void statements.wait(tx).run(JSON.stringify(seqs));

/**
 * Makes octets for the first of these messages (messages.seq). Notes messages for which that cannot be done. Returns the others,
 * and those for which it cannot be done now. @throws AppError server_error 503 if nothing can be made or written now
 */
async function makePortion(
  core: MailCore,
  seqs: readonly number[],
): Promise<{ rest: readonly number[]; failed: readonly number[] }> {
  const found = new Map(listSources(core.db, seqs.slice(0, PORTION)).map((source) => [source.seq, source]));
  const sources: OctetsSource[] = [];
  let count = 0;
  for (let bytes = 0; count < Math.min(PORTION, seqs.length); count++) {
    const source = found.get(seqs[count] as number);
    bytes += source?.bytes ?? 0;
    if (bytes > PORTION_BYTES && count > 0) break;
    if (source) sources.push(source);
  }
  const made = await Promise.allSettled(sources.map((source) => makeOctets(core, source)));
  const unready = made.filter((one) => one.status === "rejected" && isUnavailable(one.reason));
  if (unready[0]?.status === "rejected" && unready.length === made.length) throw unready[0].reason;
  await core.store.enqueue((tx) => {
    for (const [i, one] of made.entries()) {
      if (one.status === "fulfilled") one.value.write(tx);
      else if (!isUnavailable(one.reason)) statements.lose(tx).run((sources[i] as OctetsSource).seq);
    }
  });
  const failed = sources.filter((_, i) => unready.includes(made[i] as (typeof made)[number]));
  return { rest: seqs.slice(count), failed: failed.map(({ seq }) => seq) };
}

/**
 * Describes the octets of messages (messages.seq) as a person is served them, by messages.seq, and makes missing ones first.
 * Leaves out messages for which that cannot or could not be done, and those that are gone. `what`: see describeKeptOctets.
 */
export async function listServedOctets(
  core: MailCore,
  seqs: readonly number[],
  userId: string,
  what: "all" | "sizes",
): Promise<Map<number, KeptDescription>> {
  const { db, store } = core;
  const kept = describeKeptOctets(db, seqs, userId, what);
  if (kept.size === seqs.length || store.isDiskLow()) return kept;
  const lacking = listSources(
    db,
    seqs.filter((seq) => !kept.has(seq)),
  );
  let rest: readonly number[] = lacking.flatMap(({ seq, isLost }) => (isLost ? [] : seq));
  try {
    while (rest.length > 0) ({ rest } = await makePortion(core, rest));
  } catch (error) {
    if (!isUnavailable(error)) throw error;
  }
  return describeKeptOctets(db, seqs, userId, what);
}

/**
 * Describes the octets of a message (messages.seq) as a person is served them, made first if it has none; undefined if it is
 * gone. Where nothing can be written, as on a standby or a full disk, they are made for each reader. @throws AppError
 * server_error, 503 if it cannot be done now
 */
export async function findServedOctets(
  core: MailCore,
  seq: number,
  userId: string,
): Promise<KeptDescription | undefined> {
  const { db, store } = core;
  for (let tries = 0; ; tries++) {
    const kept = describeKeptOctets(db, [seq], userId).get(seq);
    if (kept) return kept;
    const [source] = listSources(db, [seq]);
    if (!source) return undefined;
    if (tries === MOST_TRIES) throw unavailable("The message is being written");
    const made = await makeOctets(core, source, userId).catch(async (error) => {
      if (!isUnavailable(error) && !source.isLost) {
        // A standby notes nothing.
        await store.enqueue((tx) => void statements.lose(tx).run(seq)).catch(() => {});
      }
      throw error;
    });
    if (made.octets && store.isDiskLow()) return describeUnwrittenOctets(source, made.octets, userId);
    try {
      await store.enqueue((tx) => made.write(tx));
    } catch (error) {
      if (!made.octets || !(error instanceof AppError)) throw error;
      return describeUnwrittenOctets(source, made.octets, userId);
    }
  }
}

/** The gauge of mail whose octets are not ready for mail apps. */
export const countMissingOctets = (db: Db): Record<"waiting" | "lost", number> => ({
  waiting: statements.count(db).get(0)?.count ?? 0,
  lost: statements.count(db).get(1)?.count ?? 0,
});

/** A job that makes the octets of mail from before they were kept, newest first, as far as the disk has room. */
export function createMissingOctetsJob(core: MailCore): Job {
  const { db, store, runtime } = core;
  /** messages.seq of mail that holds up no other mail, since its files could not be read a while ago. */
  const passed = new Set<number>();
  return {
    name: "make-octets",
    async runDue(time) {
      const seqs = statements
        .waiting(db)
        .all(JSON.stringify([...passed]))
        .map(({ seq }) => seq);
      if (seqs.length === 0 || store.isDiskLow()) {
        passed.clear();
        return time + LOOK_MS;
      }
      const { failed } = await makePortion(core, seqs).catch((error) => {
        if (passed.size < MOST_PASSED) passed.add(seqs[0] as number);
        throw error;
      });
      for (const seq of failed) passed.add(seq);
      // Half of the time is left to other mail.
      const now = runtime.now();
      return now + Math.max(0, Math.min(now - time, MOST_REST_MS));
    },
  };
}
