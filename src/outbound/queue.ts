/**
 * The outbound queue: messages to send, one entry for each recipient, and the bytes to transmit (rules: Outbound queue). Only
 * this file and claims.ts write outbound_messages, outbound_contents, queue_entries and queue_domains.
 *
 *   waiting ──claim──► leased ──┬──► delivered, bounced         held: until the operator releases it; with a time, it is parked
 *      ▲                        │                               cancelled: by the operator
 *      └───── due later ────────┘
 *
 * Invariants: a domain with waiting entries has a row in queue_domains, due no later than the earliest of them, or than the
 * time to which the domain was postponed. The bytes of a message are kept while an entry of it is waiting or held.
 */
import { createHmac } from "node:crypto";
import {
  type AnyColumn,
  and,
  asc,
  eq,
  gt,
  inArray,
  isNotNull,
  lte,
  max,
  notInArray,
  or,
  type SQL,
  sql,
} from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { type EmailAddress, splitAddress } from "../message/address.ts";
import type { MessageDsn, RecipientDsn } from "../smtp/dsn.ts";
import {
  domains,
  outboundContents,
  outboundMessages,
  type QueueState,
  queueDomains,
  queueEntries,
  type RecipientField,
} from "../store/schema.ts";
import { perDatabase, prepared } from "../store/statement.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { isWorkspaceServed, UNSERVED } from "../store/unserved-workspaces.ts";
import type { OutboundContent } from "../workers/jobs.ts";

/** A recipient, with its header field. `email`: the local part as typed, the domain in A-labels. */
export type Recipient = EmailAddress & { field: RecipientField } & RecipientDsn;

export type OutboundMessage = typeof outboundMessages.$inferSelect;
export type QueueEntry = typeof queueEntries.$inferSelect;

/** A message that is being accepted: its row, recipients (each with a new `que_` id) and content. */
export interface NewOutbound
  extends Omit<
      OutboundMessage,
      "seq" | "recipients" | "mailboxTotal" | "workspaceTotal" | "notice" | "automatic" | "ret" | "envid"
    >,
    MessageDsn {
  notice?: boolean;
  automatic?: NonNullable<OutboundMessage["automatic"]>;
  recipients: readonly (Recipient & { id: string })[];
  content: OutboundContent;
}

/** How long a count of waiting entries is reused: counting a million takes some milliseconds. */
const COUNT_MS = 1_000;
/** Most messages, the newest, that are searched for times of a clock that ran ahead. */
const MOST_RECALLED = 100_000;
export const sqlPlaceholder = (name: string): SQL => sql`${sql.placeholder(name)}`;
/** SQLite uses a partial index only where the query repeats its condition literally. */
export const isWaiting = sql`${queueEntries.state} = 'waiting'`;
const isUnsettled = sql`${queueEntries.state} IN ('waiting', 'held')`;
export const bySeq = eq(queueEntries.seq, sql.placeholder("seq"));
const endAttempt = { leased: false, attempts: sql`${queueEntries.attempts} + ${queueEntries.leased}` };

/** Computes the owner's total, with the recipients of the message that is being added. */
const totalWith = (total: AnyColumn, owner: AnyColumn, ownerId: string): SQL =>
  sql`(SELECT coalesce(max(${total}), 0) FROM ${outboundMessages} WHERE ${owner} = ${sql.placeholder(ownerId)}) + ${sql.placeholder("recipients")}`;

const adding = prepared((db) => ({
  message: db
    .insert(outboundMessages)
    .values({
      id: sql.placeholder("id"),
      workspaceId: sql.placeholder("workspaceId"),
      mailboxId: sql.placeholder("mailboxId"),
      mailbox: sql.placeholder("mailbox"),
      threadId: sql.placeholder("threadId"),
      messageId: sql.placeholder("messageId"),
      subject: sql.placeholder("subject"),
      domain: sql.placeholder("domain"),
      returnPath: sql.placeholder("returnPath"),
      acceptedAt: sql.placeholder("acceptedAt"),
      recipients: sql.placeholder("recipients"),
      outsideRecipients: sql.placeholder("outsideRecipients"),
      mailboxTotal: totalWith(outboundMessages.mailboxTotal, outboundMessages.mailboxId, "mailboxId"),
      workspaceTotal: totalWith(outboundMessages.workspaceTotal, outboundMessages.workspaceId, "workspaceId"),
      notice: sql.placeholder("notice"),
      automatic: sql.placeholder("automatic"),
      ret: sql.placeholder("ret"),
      envid: sql.placeholder("envid"),
    })
    .returning({ seq: outboundMessages.seq })
    .prepare(),
  content: db
    .insert(outboundContents)
    .values({
      messageSeq: sql.placeholder("messageSeq"),
      size: sql.placeholder("size"),
      bytes: sql.placeholder("bytes"),
      blob: sql.placeholder("blob"),
    })
    .prepare(),
  entry: db
    .insert(queueEntries)
    .values({
      id: sql.placeholder("id"),
      messageSeq: sql.placeholder("messageSeq"),
      recipient: sql.placeholder("email"),
      name: sql.placeholder("name"),
      field: sql.placeholder("field"),
      domain: sql.placeholder("domain"),
      state: "waiting",
      dueAt: sql.placeholder("dueAt"),
      notify: sql.placeholder("notify"),
      orcpt: sql.placeholder("orcpt"),
    })
    .prepare(),
}));

/** The rows of queue_domains, by domain. */
export const domainRows = prepared((db) => ({
  first: db
    .select({ messageSeq: queueEntries.messageSeq, dueAt: queueEntries.dueAt })
    .from(queueEntries)
    .where(and(isWaiting, eq(queueEntries.domain, sql.placeholder("domain"))))
    .orderBy(asc(queueEntries.dueAt))
    .limit(1)
    .prepare(),
  bringForward: db
    .insert(queueDomains)
    .values({ domain: sql.placeholder("domain"), dueAt: sql.placeholder("dueAt") })
    .onConflictDoUpdate({
      target: queueDomains.domain,
      set: { dueAt: sql`excluded.due_at` },
      setWhere: sql`excluded.due_at < ${queueDomains.dueAt}`,
    })
    .prepare(),
  setDomain: db
    .insert(queueDomains)
    .values({ domain: sql.placeholder("domain"), dueAt: sql.placeholder("dueAt") })
    .onConflictDoUpdate({ target: queueDomains.domain, set: { dueAt: sql`excluded.due_at` } })
    .prepare(),
  forgetDomain: db
    .delete(queueDomains)
    .where(eq(queueDomains.domain, sql.placeholder("domain")))
    .prepare(),
}));

const settling = prepared((db) => ({
  settle: db
    .update(queueEntries)
    .set({
      ...endAttempt,
      state: sqlPlaceholder("state"),
      dueAt: null,
      reply: sqlPlaceholder("reply"),
      settledAt: sqlPlaceholder("now"),
      acceptedBy: sql`coalesce(${sql.placeholder("host")}, ${queueEntries.acceptedBy})`,
    })
    .where(bySeq)
    .prepare(),
  defer: db
    .update(queueEntries)
    .set({ ...endAttempt, state: "waiting", dueAt: sqlPlaceholder("dueAt"), reply: sqlPlaceholder("reply") })
    .where(bySeq)
    .prepare(),
  hold: db.update(queueEntries).set({ leased: false, state: "held", dueAt: null }).where(bySeq).prepare(),
  release: db
    .update(queueEntries)
    .set({ leased: false, state: "waiting", dueAt: sqlPlaceholder("now") })
    // An entry that was settled meanwhile must not be sent again.
    .where(and(bySeq, sql`+${isUnsettled}`))
    .prepare(),
  entry: db
    .select()
    .from(queueEntries)
    .where(eq(queueEntries.id, sql.placeholder("id")))
    .prepare(),
  workspace: db
    .select({ workspaceId: outboundMessages.workspaceId })
    .from(outboundMessages)
    .where(eq(outboundMessages.seq, sql.placeholder("messageSeq")))
    .prepare(),
  complain: db
    .update(queueEntries)
    .set({ complainedAt: sql`coalesce(${queueEntries.complainedAt}, ${sql.placeholder("now")})` })
    .where(bySeq)
    .prepare(),
  dropContent: db
    .delete(outboundContents)
    .where(
      and(
        eq(outboundContents.messageSeq, sql.placeholder("messageSeq")),
        sql`NOT EXISTS (SELECT 1 FROM ${queueEntries} WHERE ${queueEntries.messageSeq} = ${sql.placeholder("messageSeq")} AND +${isUnsettled})`,
      ),
    )
    .prepare(),
}));

const reading = prepared((db) => ({
  content: db
    .select()
    .from(outboundContents)
    .where(eq(outboundContents.messageSeq, sql.placeholder("messageSeq")))
    .prepare(),
  byReturnPath: db
    .select()
    .from(outboundMessages)
    .where(eq(outboundMessages.returnPath, sql.placeholder("returnPath")))
    .prepare(),
  byMessageId: db
    .select()
    .from(outboundMessages)
    .where(eq(outboundMessages.messageId, sql.placeholder("messageId")))
    .orderBy(asc(outboundMessages.seq))
    .prepare(),
  entries: db
    .select()
    .from(queueEntries)
    .where(eq(queueEntries.messageSeq, sql.placeholder("messageSeq")))
    .orderBy(asc(queueEntries.seq))
    .prepare(),
  unsettled: db.select({ count: sql<number>`count(*)` }).from(queueEntries).where(isUnsettled).prepare(),
}));

/** Adds a message to the queue, due at once. Returns its seq. */
export function addOutbound(
  tx: Tx,
  { recipients, content, notice = false, automatic, ret, envid, ...message }: NewOutbound,
): number {
  const counted = notice ? 0 : recipients.length;
  const dsn = { ret: ret ?? null, envid: envid ?? null };
  const added = adding(tx).message.get({
    ...message,
    ...dsn,
    notice,
    automatic: automatic ?? null,
    recipients: counted,
  });
  if (!added) throw new Error("inserting an outbound message returned no row");
  const messageSeq = added.seq;
  adding(tx).content.run(
    "bytes" in content
      ? { messageSeq, size: content.bytes.byteLength, bytes: content.bytes, blob: null }
      : { messageSeq, size: content.size, bytes: null, blob: content.blob },
  );
  const dueAt = message.acceptedAt;
  const found = new Set<string>();
  for (const { id, email, name = null, field, notify = null, orcpt = null } of recipients) {
    const domain = splitAddress(email).domain.toLowerCase();
    found.add(domain);
    adding(tx).entry.run({ id, messageSeq, email, name, field, domain, dueAt, notify, orcpt });
  }
  for (const domain of found) domainRows(tx).bringForward.run({ domain, dueAt });
  return messageSeq;
}

/** Returns the content to transmit; undefined once every recipient is settled. */
export function findOutboundContent(db: Db, messageSeq: number): OutboundContent | undefined {
  const row = reading(db).content.get({ messageSeq });
  if (row?.bytes) return { bytes: row.bytes };
  return row?.blob ? { blob: row.blob, size: row.size } : undefined;
}

/**
 * Reads the content as bytes; one in a file once `enter`, which gets its size, resolves. @throws Error when there is
 * none; the error of the file system
 */
export async function readOutboundContent(
  { db, blobs }: Pick<Store, "db" | "blobs">,
  messageSeq: number,
  enter = async (_size: number): Promise<void> => {},
): Promise<Uint8Array> {
  const content = findOutboundContent(db, messageSeq);
  if (content === undefined) throw new Error(`outbound message ${messageSeq} has no content`);
  if ("bytes" in content) return content.bytes;
  await enter(content.size);
  return blobs.read(content.blob);
}

/** Stands for several destinations at once, for which a smarthost takes a message. It is the domain of no recipient. */
const SEVERAL = "*";

/**
 * Tag of a destination in the return path of a message. The id of the message is the secret: no recipient knows it, so no
 * recipient can tell the return path of another destination.
 */
const destinationTag = (id: string, domain: string): string =>
  createHmac("sha256", id).update(domain).digest("hex").slice(0, 16);

/**
 * The reverse-path of a message on its way to recipients at these domains. Each recipient's server sees it, and can report only
 * about recipients at its own domain.
 */
export function reversePathTo({ id, returnPath }: OutboundMessage, domains: readonly string[]): string {
  const [domain = SEVERAL, ...more] = new Set(domains);
  return returnPath.replace(/\.(?=@)/, () => `.${destinationTag(id, more.length > 0 ? SEVERAL : domain)}`);
}

/** A message that was sent with an address as its reverse-path. */
export interface Returned {
  message: OutboundMessage;
  /**
   * The destination that has this address; "*" for several, all of which see it; undefined for a message from before each
   * had its own.
   */
  domain?: string;
}

const RETURN_PATH = /^(bounce\+[0-9a-z]+)(?:\.([0-9a-f]{16}))?@(.+)$/i;

/** Finds the message with this reverse-path, a normalized address. Queries the database only for what looks like one. */
export function findOutboundByReversePath(db: Db, address: string): Returned | undefined {
  const [, local, tag, sender] = RETURN_PATH.exec(address) ?? [];
  if (local === undefined) return undefined;
  // Messages from before each destination had its own have no dot.
  const message = reading(db).byReturnPath.get({ returnPath: `${local}${tag === undefined ? "" : "."}@${sender}` });
  if (message === undefined || tag === undefined) return message && { message };
  const destinations = new Set([SEVERAL, ...listQueueEntries(db, message.seq).map(({ domain }) => domain)]);
  const domain = [...destinations].find((one) => destinationTag(message.id, one) === tag);
  return domain === undefined ? undefined : { message, domain };
}

/** Lists the messages sent with that Message-ID (with its angle brackets), the oldest first. */
export function listOutboundByMessageId(db: Db, messageId: string): OutboundMessage[] {
  return reading(db).byMessageId.all({ messageId });
}

/** Lists every recipient of a message, in its order. */
export function listQueueEntries(db: Db, messageSeq: number): QueueEntry[] {
  return reading(db).entries.all({ messageSeq });
}

const counts = perDatabase(() => ({ at: Number.NEGATIVE_INFINITY, count: 0 }));

/** Counts the recipients waiting or held, as of at most a second ago. `now`: epoch ms. */
export function countUnsettledRecipients(db: Db, now: number): number {
  const last = counts(db);
  if (Math.abs(now - last.at) >= COUNT_MS) {
    last.at = now;
    last.count = reading(db).unsettled.get()?.count ?? 0;
  }
  return last.count;
}

/** Sets the due time of a domain to that of its earliest waiting entry. */
export function correctDomainDueTime(tx: Tx, domain: string): void {
  const first = domainRows(tx).first.get({ domain });
  if (first === undefined) domainRows(tx).forgetDomain.run({ domain });
  else domainRows(tx).setDomain.run({ domain, dueAt: first.dueAt ?? 0 });
}

export function correctDomainDueTimes(tx: Tx, entries: readonly Pick<QueueEntry, "domain">[]): void {
  for (const domain of new Set(entries.map((entry) => entry.domain))) correctDomainDueTime(tx, domain);
}

export type EntryRef = Pick<QueueEntry, "seq" | "messageSeq" | "domain">;

/**
 * Records that an attempt has delivered the entries. `now`: epoch ms; `reply`: the server's, for people; `host`: its name, if
 * not ours.
 */
export function setEntriesDelivered(
  tx: Tx,
  entries: readonly EntryRef[],
  now: number,
  reply: string,
  host?: string,
): void {
  settle(tx, entries, "delivered", now, reply, host?.toLowerCase());
}

/** Records an attempt that failed for now; the next is at `dueAt` (epoch ms). */
export function setEntryDeferred(tx: Tx, entry: EntryRef, dueAt: number, reply: string): void {
  settling(tx).defer.run({ seq: entry.seq, dueAt, reply });
  domainRows(tx).bringForward.run({ domain: entry.domain, dueAt });
}

/** Gives an entry up after an attempt; or after a later report, in any state and without counting an attempt. */
export function setEntryBounced(tx: Tx, entry: EntryRef, now: number, reply: string): void {
  settle(tx, [entry], "bounced", now, reply);
}

/** Holds entries until `retryEntry`; no attempt is counted. */
export function setEntriesHeld(tx: Tx, entries: readonly EntryRef[]): void {
  for (const { seq } of entries) settling(tx).hold.run({ seq });
  correctDomainDueTimes(tx, entries);
}

/**
 * Holds every waiting entry for a recipient elsewhere, with the reason; returns how many. Reads all waiting entries. Entries of
 * this server's own domains, verified or the sender's, are not held: filing them here affects no other server.
 */
export function holdWaitingEntries(tx: Tx, reply: string): number {
  const sendersOwn = eq(domains.workspaceId, outboundMessages.workspaceId);
  const staying = tx
    .select({ seq: queueEntries.seq })
    .from(queueEntries)
    .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
    .innerJoin(domains, eq(domains.name, queueEntries.domain))
    .where(and(isWaiting, or(isNotNull(domains.verifiedAt), sendersOwn)));
  const held = tx
    .update(queueEntries)
    .set({ state: "held", leased: false, dueAt: null, reply })
    .where(and(isWaiting, notInArray(queueEntries.seq, staying)))
    .returning({ seq: queueEntries.seq })
    .all();
  const waiting = tx.select({ domain: queueEntries.domain }).from(queueEntries).where(isWaiting);
  tx.delete(queueDomains).where(notInArray(queueDomains.domain, waiting)).run();
  return held.length;
}

/**
 * Makes all held entries due at `now` (epoch ms), of one workspace or of all, except those that move to another server; returns
 * how many.
 */
export function releaseHeldEntries(tx: Tx, now: number, workspaceId?: string): number {
  const held = tx
    .select({ seq: queueEntries.seq, domain: queueEntries.domain })
    .from(queueEntries)
    .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
    .where(
      and(
        eq(queueEntries.state, sql.raw("'held'")),
        workspaceId === undefined ? undefined : eq(outboundMessages.workspaceId, workspaceId),
        sql`${outboundMessages.workspaceId} NOT IN ${sql.raw(UNSERVED)}`,
      ),
    )
    .all();
  for (const { seq, domain } of held) makeQueueEntryDue(tx, seq, domain, now);
  return held.length;
}

const ofWorkspace = (tx: Tx, workspaceId: string, domain?: string): SQL =>
  inArray(
    queueEntries.messageSeq,
    tx
      .select({ seq: outboundMessages.seq })
      .from(outboundMessages)
      .where(
        and(
          eq(outboundMessages.workspaceId, workspaceId),
          domain === undefined ? undefined : sql`+${outboundMessages.domain} = ${domain}`,
        ),
      ),
  );

/**
 * Parks the waiting entries of a workspace that moves to another server: they are held, and keep the time at which they are
 * due. Returns the number of attempts under way, which go on.
 */
export function parkWorkspaceQueue(tx: Tx, workspaceId: string): number {
  const parked = tx
    .update(queueEntries)
    .set({ state: "held" })
    .where(and(isWaiting, eq(queueEntries.leased, false), ofWorkspace(tx, workspaceId)))
    .returning({ domain: queueEntries.domain })
    .all();
  correctDomainDueTimes(tx, parked);
  const attempts = tx
    .select({ count: sql<number>`count(*)` })
    .from(queueEntries)
    .where(and(isWaiting, ofWorkspace(tx, workspaceId)));
  return attempts.get()?.count ?? 0;
}

/** Makes the parked entries of a workspace wait again; with `domain` (A-labels), those of messages from there. */
export function unparkWorkspaceQueue(tx: Tx, workspaceId: string, domain?: string): void {
  const waiting = tx
    .update(queueEntries)
    .set({ state: "waiting" })
    .where(
      and(
        eq(queueEntries.state, sql.raw("'held'")),
        isNotNull(queueEntries.dueAt),
        ofWorkspace(tx, workspaceId, domain),
      ),
    )
    .returning({ domain: queueEntries.domain })
    .all();
  correctDomainDueTimes(tx, waiting);
}

/**
 * Deletes up to `limit` messages that a mailbox sent, in any state. Returns their ids, and how many of their recipients were
 * `unsettled`: waiting or held.
 */
export function deleteOutboundMessages(
  tx: Tx,
  mailboxId: string,
  limit: number,
): { emailIds: string[]; messageIds: string[]; unsettled: number } {
  const portion = tx
    .select({ seq: outboundMessages.seq, id: outboundMessages.id, messageId: outboundMessages.messageId })
    .from(outboundMessages)
    .where(eq(outboundMessages.mailboxId, mailboxId))
    .limit(limit)
    .all();
  const seqs = portion.map(({ seq }) => seq);
  const unsettled = tx
    .select({ domain: queueEntries.domain })
    .from(queueEntries)
    .where(and(inArray(queueEntries.messageSeq, seqs), sql`+${isUnsettled}`))
    .all();
  tx.delete(outboundMessages).where(inArray(outboundMessages.seq, seqs)).run();
  correctDomainDueTimes(tx, unsettled);
  return {
    emailIds: portion.map(({ id }) => id),
    messageIds: portion.map(({ messageId }) => messageId),
    unsettled: unsettled.length,
  };
}

/** Records that the recipient reported the message as spam; the first time counts. `now`: epoch ms. */
export function setEntryComplained(tx: Tx, entry: EntryRef, now: number): void {
  settling(tx).complain.run({ seq: entry.seq, now });
}

function settle(
  tx: Tx,
  entries: readonly EntryRef[],
  state: QueueState,
  now: number,
  reply: string | null,
  host: string | null = null,
): void {
  for (const { seq } of entries) settling(tx).settle.run({ seq, state, now, reply, host });
  correctDomainDueTimes(tx, entries);
  for (const messageSeq of new Set(entries.map((entry) => entry.messageSeq))) {
    settling(tx).dropContent.run({ messageSeq });
  }
}

/**
 * Corrects the times of messages that were accepted while the clock was ahead: moves all of them back by the same amount, so
 * that the last one was accepted at `now` (epoch ms). Otherwise they would count against limits for as long as the clock was
 * ahead.
 */
export function correctAcceptedTimes(tx: Tx, now: number): void {
  const { seq, acceptedAt } = outboundMessages;
  const newest =
    tx
      .select({ seq: max(seq) })
      .from(outboundMessages)
      .get()?.seq ?? 0;
  const ofFuture = and(gt(seq, newest - MOST_RECALLED), sql`+${acceptedAt} > ${now}`);
  const last = tx
    .select({ at: max(acceptedAt) })
    .from(outboundMessages)
    .where(ofFuture)
    .get()?.at;
  if (last == null) return;
  tx.update(outboundMessages)
    .set({ acceptedAt: sql`${acceptedAt} - ${last - now}` })
    .where(ofFuture)
    .run();
}

/** Makes an entry that is waiting or held due at `now` (epoch ms), and gives its lease back. */
export function makeQueueEntryDue(tx: Tx, seq: number, domain: string, now: number): void {
  settling(tx).release.run({ seq, now });
  domainRows(tx).bringForward.run({ domain, dueAt: now });
}

/**
 * Makes an entry that is waiting or held due at `now` (epoch ms).
 * @throws AppError not_found; conflict when it is settled, an attempt is under way, or it moves to another server
 */
export function retryEntry(tx: Tx, id: string, now: number): void {
  const { seq, domain } = idleEntry(tx, id, now);
  makeQueueEntryDue(tx, seq, domain, now);
}

/** Gives an entry up, without event or notice. @throws AppError as retryEntry */
export function cancelEntry(tx: Tx, id: string, now: number): void {
  const entry = idleEntry(tx, id, now);
  settle(tx, [entry], "cancelled", now, entry.reply);
}

/** Gives up what rules of a mailbox forwarded and no server has yet, except for attempts that are under way. `now`: epoch ms. */
export function cancelMailboxForwards(tx: Tx, mailboxId: string, now: number): void {
  const idle = or(eq(queueEntries.leased, false), lte(queueEntries.dueAt, now));
  const entries = tx
    .select({ queue: queueEntries })
    .from(outboundMessages)
    .innerJoin(queueEntries, eq(queueEntries.messageSeq, outboundMessages.seq))
    .where(
      and(
        eq(outboundMessages.mailboxId, mailboxId),
        eq(outboundMessages.automatic, "forward"),
        sql`+${isUnsettled}`,
        idle,
      ),
    )
    .all();
  for (const { queue } of entries) settle(tx, [queue], "cancelled", now, queue.reply);
}

function idleEntry(tx: Tx, id: string, now: number): QueueEntry {
  const entry = settling(tx).entry.get({ id });
  if (!entry) throw new AppError("not_found", `There is no queue entry ${id}`);
  const { state, leased, dueAt, messageSeq } = entry;
  const { workspaceId = "" } = settling(tx).workspace.get({ messageSeq }) ?? {};
  if (!isWorkspaceServed(tx, workspaceId)) throw new AppError("conflict", `Queue entry ${id} moves to another server`);
  if (state !== "waiting" && state !== "held") throw new AppError("conflict", `Queue entry ${id} is ${state} already`);
  if (leased && (dueAt ?? 0) > now) {
    throw new AppError("conflict", `An attempt to deliver queue entry ${id} is under way; try again when it has ended`);
  }
  return entry;
}
