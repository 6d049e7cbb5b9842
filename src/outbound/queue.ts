/**
 * The outbound queue: messages on their way, one entry a recipient, and the bytes to transmit (rules: Outbound queue).
 * The only writer of outbound_messages, outbound_contents, queue_entries and queue_domains.
 *
 *   waiting ──claim──► leased ──┬──► delivered, bounced         held: until the operator lets it go
 *      ▲                        │                               cancelled: by the operator
 *      └───── due later ────────┘
 *
 * Invariants: an entry is attempted under a lease alone, so a crash repeats an attempt and never loses one. A domain with
 * waiting entries has a row in queue_domains, due no later than the earliest of them, or than the time it was put off to.
 * The bytes of a message are kept for as long as an entry of it is waiting or held.
 */
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
import { splitAddress } from "../message/address.ts";
import {
  domains,
  outboundContents,
  outboundMessages,
  QUEUE_LINES,
  type QueueLine,
  type QueueState,
  queueDomains,
  queueEntries,
} from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import type { Recipient } from "./recipient.ts";

export type OutboundMessage = typeof outboundMessages.$inferSelect;
export type QueueEntry = typeof queueEntries.$inferSelect;

/** The bytes to transmit: themselves, or the blob that has them, which is durable already. */
export type OutboundContent = { bytes: Uint8Array } | { blob: string; size: number };

/** Content up to this size, in bytes, belongs into the row; larger content into a blob. */
export const LARGEST_ROW_CONTENT = 256 * 1024;

/** A message that is being accepted: its row, to whom, and what. `recipients`: each with a new `que_` id. */
export interface NewOutbound
  extends Omit<OutboundMessage, "seq" | "recipients" | "mailboxTotal" | "workspaceTotal" | "notice"> {
  notice?: boolean;
  recipients: readonly (Recipient & { id: string })[];
  content: OutboundContent;
}

/** Entries of one message that are attempted together, under a lease. */
export interface Claim {
  message: OutboundMessage;
  /** One at least, in the order of the message. */
  entries: QueueEntry[];
  /** Of the entry that was due first; of all of them, but for what goes `together`. */
  domain: string;
  /** Epoch ms. */
  leaseUntil: number;
}

/** What may be claimed. Times are epoch ms. */
export interface ClaimTerms {
  now: number;
  leaseUntil: number;
  /** Whether entries of a message at another domain go along with those at `domain`: to one server, at one time. */
  together?: (message: OutboundMessage, domain: string, other: string) => boolean;
  /** Of this domain alone. */
  domain?: string;
  /** Of the verified domains of this server alone: mail to those stays here, whoever sent it. */
  own?: boolean;
  /** When a domain may be attempted: any time by now; later, for one that rests; never (Infinity), while it is busy. */
  notBefore?: (domain: string) => number;
  /** The lines that have a place free, the first to be served first; all of them unless told. */
  lines?: readonly QueueLine[];
  /** Where a domain belongs; it is moved there when its line has no place free. Unless told: where it is. */
  lineOf?: (domain: string) => QueueLine;
}

/** RFC 5321 §4.5.3.1.8: as many as every server takes in one transaction. */
const MOST_RECIPIENTS = 100;
/** Messages looked at, the newest, for such that a clock accepted which was ahead. */
const MOST_RECALLED = 100_000;
/** Domains put out of the way by one claim, which holds up everything else meanwhile. */
const MOST_PUT_OFF = 1_000;
/** Domains looked at in one query; most often the first will do. */
const DOMAINS_PAGE = 16;

const param = (name: string): SQL => sql`${sql.placeholder(name)}`;
/** Written out: SQLite uses a partial index only where the query says its condition literally. */
const isWaiting = sql`${queueEntries.state} = 'waiting'`;
const isUnsettled = sql`${queueEntries.state} IN ('waiting', 'held')`;
const bySeq = eq(queueEntries.seq, sql.placeholder("seq"));
const endAttempt = { leased: false, attempts: sql`${queueEntries.attempts} + ${queueEntries.leased}` };

/** The owner's total so far, with the recipients of the message that is being added. */
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
    })
    .prepare(),
}));

const scheduling = prepared((db) => {
  const after = sql`(${queueDomains.dueAt}, ${queueDomains.domain}) > (${sql.placeholder("dueAt")}, ${sql.placeholder("domain")})`;
  const upTo = lte(queueDomains.dueAt, sql.placeholder("upTo"));
  const row = { domain: queueDomains.domain, dueAt: queueDomains.dueAt };
  const byDue = [asc(queueDomains.dueAt), asc(queueDomains.domain)] as const;
  return {
    domains: db
      .select(row)
      .from(queueDomains)
      .where(and(eq(queueDomains.line, sql.placeholder("line")), upTo, after))
      .orderBy(...byDue)
      .limit(DOMAINS_PAGE)
      .prepare(),
    // A cross join keeps its order in SQLite: a server has few domains, its queue may know many.
    ownDomains: db
      .select(row)
      .from(domains)
      .crossJoin(queueDomains)
      .where(and(eq(queueDomains.domain, domains.name), isNotNull(domains.verifiedAt), upTo, after))
      .orderBy(...byDue)
      .limit(DOMAINS_PAGE)
      .prepare(),
    first: db
      .select({ messageSeq: queueEntries.messageSeq, dueAt: queueEntries.dueAt })
      .from(queueEntries)
      .where(and(isWaiting, eq(queueEntries.domain, sql.placeholder("domain"))))
      .orderBy(asc(queueEntries.dueAt))
      .limit(1)
      .prepare(),
    // By its message, which has few entries, and never by state, of which there may be many: hence the plus sign.
    dueOfMessage: db
      .select()
      .from(queueEntries)
      .where(
        and(
          eq(queueEntries.messageSeq, sql.placeholder("messageSeq")),
          sql`+${isWaiting}`,
          lte(queueEntries.dueAt, sql.placeholder("now")),
        ),
      )
      .orderBy(asc(queueEntries.seq))
      .prepare(),
    message: db
      .select()
      .from(outboundMessages)
      .where(eq(outboundMessages.seq, sql.placeholder("seq")))
      .prepare(),
    lease: db
      .update(queueEntries)
      .set({ leased: true, dueAt: param("until") })
      .where(bySeq)
      .prepare(),
    extend: db
      .update(queueEntries)
      .set({ dueAt: param("until") })
      .where(and(bySeq, eq(queueEntries.leased, true)))
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
    setLine: db
      .update(queueDomains)
      .set({ line: param("line") as never })
      .where(eq(queueDomains.domain, sql.placeholder("domain")))
      .prepare(),
    forgetDomain: db
      .delete(queueDomains)
      .where(eq(queueDomains.domain, sql.placeholder("domain")))
      .prepare(),
  };
});

const settling = prepared((db) => ({
  settle: db
    .update(queueEntries)
    .set({
      ...{ ...endAttempt, state: param("state"), dueAt: null, reply: param("reply"), settledAt: param("now") },
      acceptedBy: sql`coalesce(${sql.placeholder("host")}, ${queueEntries.acceptedBy})`,
    })
    .where(bySeq)
    .prepare(),
  defer: db
    .update(queueEntries)
    .set({ ...endAttempt, state: "waiting", dueAt: param("dueAt"), reply: param("reply") })
    .where(bySeq)
    .prepare(),
  hold: db.update(queueEntries).set({ leased: false, state: "held", dueAt: null }).where(bySeq).prepare(),
  release: db
    .update(queueEntries)
    .set({ leased: false, state: "waiting", dueAt: param("now") })
    // What was settled meanwhile must not be sent again.
    .where(and(bySeq, sql`+${isUnsettled}`))
    .prepare(),
  entry: db
    .select()
    .from(queueEntries)
    .where(eq(queueEntries.id, sql.placeholder("id")))
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

/** Takes a message into the queue, due at once; it is there when the transaction has committed. Returns its seq. */
export function addOutbound(tx: Tx, { recipients, content, notice = false, ...message }: NewOutbound): number {
  const counted = notice ? 0 : recipients.length;
  const added = adding(tx).message.get({ ...message, notice, recipients: counted });
  if (!added) throw new Error("inserting an outbound message returned no row");
  const messageSeq = added.seq;
  adding(tx).content.run(
    "bytes" in content
      ? { messageSeq, size: content.bytes.byteLength, bytes: content.bytes, blob: null }
      : { messageSeq, size: content.size, bytes: null, blob: content.blob },
  );
  const dueAt = message.acceptedAt;
  const found = new Set<string>();
  for (const { id, email, name = null, field } of recipients) {
    const domain = splitAddress(email).domain.toLowerCase();
    found.add(domain);
    adding(tx).entry.run({ id, messageSeq, email, name, field, domain, dueAt });
  }
  for (const domain of found) scheduling(tx).bringForward.run({ domain, dueAt });
  return messageSeq;
}

type Terms = Pick<ClaimTerms, "own" | "lines">;

/** Domains whose row is due by `upTo`, line by line, the earliest of each first. */
function* domainsByDue(db: Db, { own = false, lines = QUEUE_LINES }: Terms, upTo: number): Generator<DueDomain> {
  if (own) return yield* inPages((after) => scheduling(db).ownDomains.all({ ...after, upTo }));
  for (const line of lines) yield* inPages((after) => scheduling(db).domains.all({ ...after, line, upTo }));
}

interface DueDomain {
  domain: string;
  dueAt: number;
}

function* inPages(page: (after: DueDomain) => DueDomain[]): Generator<DueDomain> {
  let last = { domain: "", dueAt: Number.MIN_SAFE_INTEGER };
  for (;;) {
    const rows = page(last);
    yield* rows;
    const end = rows.at(-1);
    if (end === undefined || rows.length < DOMAINS_PAGE) return;
    last = end;
  }
}

/**
 * Leases what has been due longest in the first line that has something which may be attempted: the entry, with all that
 * can go along in one transaction with the next server. Undefined when there is none, or so much was in the way that another
 * claim is to go on.
 */
export function claim(tx: Tx, terms: ClaimTerms): Claim | undefined {
  if (terms.domain !== undefined) return claimOf(tx, terms.domain, terms);
  const { now, notBefore, lines = QUEUE_LINES, lineOf } = terms;
  let putOff = 0;
  for (const { domain } of domainsByDue(tx, terms, now)) {
    if (putOff >= MOST_PUT_OFF) return undefined;
    const from = notBefore?.(domain) ?? 0;
    const line = lineOf?.(domain);
    if (line !== undefined && !lines.includes(line)) {
      // Out of the way: however many wait there, the next claim does not pass them again.
      moveDomain(tx, domain, line);
      putOff++;
    } else if (from <= now) {
      const claimed = claimOf(tx, domain, terms);
      if (claimed) return claimed;
    } else if (from < Number.POSITIVE_INFINITY) {
      // The same for those that rest.
      scheduling(tx).setDomain.run({ domain, dueAt: from });
      putOff++;
    }
  }
  return undefined;
}

/** From now on the domain, if anything waits for it, waits in that line. */
export function moveDomain(tx: Tx, domain: string, line: QueueLine): void {
  scheduling(tx).setLine.run({ domain, line });
}

function claimOf(tx: Tx, domain: string, { now, leaseUntil, together }: ClaimTerms): Claim | undefined {
  const first = scheduling(tx).first.get({ domain });
  if (first === undefined || (first.dueAt ?? 0) > now) {
    correctDomain(tx, domain);
    return undefined;
  }
  const { messageSeq } = first;
  const message = scheduling(tx).message.get({ seq: messageSeq });
  if (!message) throw new Error(`queue entry of outbound message ${messageSeq}, which is not there`);
  const entries = scheduling(tx)
    .dueOfMessage.all({ messageSeq, now })
    .filter((entry) => entry.domain === domain || together?.(message, domain, entry.domain))
    .slice(0, MOST_RECIPIENTS);
  for (const { seq } of entries) scheduling(tx).lease.run({ seq, until: leaseUntil });
  correctDomains(tx, entries);
  return {
    message,
    domain,
    leaseUntil,
    entries: entries.map((entry) => ({ ...entry, leased: true, dueAt: leaseUntil })),
  };
}

/** When there may be something to claim on such terms: epoch ms; undefined while nothing waits that may be attempted. */
export function nextDue(
  db: Db,
  { notBefore, own = false, lines = QUEUE_LINES }: Pick<ClaimTerms, "notBefore" | "own" | "lines"> = {},
): number | undefined {
  let earliest = Number.POSITIVE_INFINITY;
  for (const each of own ? [lines] : lines.map((line) => [line])) {
    for (const { domain, dueAt } of domainsByDue(db, { own, lines: each }, Number.MAX_SAFE_INTEGER)) {
      if (dueAt >= earliest) break;
      earliest = Math.min(earliest, Math.max(dueAt, notBefore?.(domain) ?? 0));
    }
  }
  return Number.isFinite(earliest) ? earliest : undefined;
}

/** The domain's turn comes after that of the others due at `now` (epoch ms). */
export function yieldTurn(tx: Tx, domain: string, now: number): undefined {
  const first = scheduling(tx).first.get({ domain });
  if (first) scheduling(tx).setDomain.run({ domain, dueAt: Math.max(first.dueAt ?? 0, now) });
}

/** The row of a domain says again when its earliest entry is due. */
function correctDomain(tx: Tx, domain: string): void {
  const first = scheduling(tx).first.get({ domain });
  if (first === undefined) scheduling(tx).forgetDomain.run({ domain });
  else scheduling(tx).setDomain.run({ domain, dueAt: first.dueAt ?? 0 });
}

function correctDomains(tx: Tx, entries: readonly Pick<QueueEntry, "domain">[]): void {
  for (const domain of new Set(entries.map((entry) => entry.domain))) correctDomain(tx, domain);
}

type EntryRef = Pick<QueueEntry, "seq" | "messageSeq" | "domain">;

/** An attempt has delivered them. `now`: epoch ms; `reply`: what the server said, for people; `host`: its name, if not ours. */
export function setDelivered(tx: Tx, entries: readonly EntryRef[], now: number, reply: string, host?: string): void {
  settle(tx, entries, "delivered", now, reply, host?.toLowerCase());
}

/** The attempt failed for now; the next is at `dueAt` (epoch ms). */
export function setDeferred(tx: Tx, entry: EntryRef, dueAt: number, reply: string): void {
  settling(tx).defer.run({ seq: entry.seq, dueAt, reply });
  scheduling(tx).bringForward.run({ domain: entry.domain, dueAt });
}

/** Given up: by an attempt, or for an entry in any state by a report that came later, which counts no attempt. */
export function setBounced(tx: Tx, entry: EntryRef, now: number, reply: string): void {
  settle(tx, [entry], "bounced", now, reply);
}

/** Kept from being sent until `retryEntry`; no attempt is counted. */
export function setHeld(tx: Tx, entries: readonly EntryRef[]): void {
  for (const { seq } of entries) settling(tx).hold.run({ seq });
  correctDomains(tx, entries);
}

/**
 * Holds all that waits for recipients elsewhere, and says why; how many. Reads all that waits. Those of this server's own
 * domains stay, if verified or the sender's: what is filed here has left no trace elsewhere.
 */
export function holdWaiting(tx: Tx, reply: string): number {
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

/** Makes due at `now` (epoch ms) all that is held, of one workspace or of all; how many. */
export function releaseHeld(tx: Tx, now: number, workspaceId?: string): number {
  const held = tx
    .select({ seq: queueEntries.seq, domain: queueEntries.domain })
    .from(queueEntries)
    .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
    .where(
      and(
        eq(queueEntries.state, sql.raw("'held'")),
        workspaceId === undefined ? undefined : eq(outboundMessages.workspaceId, workspaceId),
      ),
    )
    .all();
  for (const { seq, domain } of held) release(tx, seq, domain, now);
  return held.length;
}

/**
 * Deletes up to `limit` messages that a mailbox sent, whatever became of them, and says which; `unsettled` recipients of
 * them were waiting or held.
 */
export function deleteOutboundOf(
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
  correctDomains(tx, unsettled);
  return {
    emailIds: portion.map(({ id }) => id),
    messageIds: portion.map(({ messageId }) => messageId),
    unsettled: unsettled.length,
  };
}

/** The recipient reported it as spam; the first time counts. `now`: epoch ms. */
export function setComplained(tx: Tx, entry: EntryRef, now: number): void {
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
  correctDomains(tx, entries);
  for (const messageSeq of new Set(entries.map((entry) => entry.messageSeq))) {
    settling(tx).dropContent.run({ messageSeq });
  }
}

/** Prolongs to `until` (epoch ms) the leases among them that have not been given back. */
export function extendLeases(tx: Tx, entries: readonly EntryRef[], until: number): void {
  for (const { seq } of entries) scheduling(tx).extend.run({ seq, until });
}

/** Gives leases back, due now, without an attempt counted: their attempts were cut short. */
export function releaseEntries(tx: Tx, entries: readonly EntryRef[], now: number): undefined {
  for (const { seq, domain } of entries) release(tx, seq, domain, now);
}

/**
 * The same for every lease; returns how many. At start they belong to a process that has ended: one server has the data
 * folder. Reads all that waits.
 */
export function releaseLeases(tx: Tx, now: number): number {
  const leased = tx
    .select({ seq: queueEntries.seq, domain: queueEntries.domain })
    .from(queueEntries)
    .where(and(isWaiting, eq(queueEntries.leased, true)))
    .all();
  for (const { seq, domain } of leased) release(tx, seq, domain, now);
  return leased.length;
}

/**
 * What waits, under no lease, for longer than it does after so many attempts (`waits`: after the first, the second, …, in
 * ms) was put off by a clock that was ahead: from `now` (epoch ms) on it waits for no more than that, and not at all when
 * it is longer than any wait. Returns how many. Reads all that waits for later.
 */
export function recallStrays(tx: Tx, waits: readonly number[], now: number): number {
  const { seq, domain, dueAt, attempts } = queueEntries;
  const later = tx
    .select({ seq, domain, dueAt, attempts })
    .from(queueEntries)
    .where(and(isWaiting, eq(queueEntries.leased, false), gt(dueAt, now)))
    .all();
  const longest = Math.max(0, ...waits);
  const strays = later.flatMap((entry) => {
    const wait = entry.attempts === 0 ? 0 : (waits[entry.attempts - 1] ?? longest);
    const left = (entry.dueAt ?? now) - now;
    return left <= wait ? [] : { ...entry, dueAt: left > longest ? now : now + wait };
  });
  for (const stray of strays) release(tx, stray.seq, stray.domain, stray.dueAt);
  const resting = tx.select({ name: queueDomains.domain }).from(queueDomains).where(gt(queueDomains.dueAt, now)).all();
  for (const { name } of resting) correctDomain(tx, name);
  return strays.length;
}

/**
 * What a clock that was ahead has accepted at times that have not come (`now`: epoch ms) was accepted by now, the last of
 * it just now: else it would count for limits that it is no part of, for as long as the clock was ahead.
 */
export function recallAccepted(tx: Tx, now: number): void {
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

function release(tx: Tx, seq: number, domain: string, now: number): void {
  settling(tx).release.run({ seq, now });
  scheduling(tx).bringForward.run({ domain, dueAt: now });
}

/**
 * Makes an entry that is waiting or held due at `now` (epoch ms).
 * @throws AppError not_found; conflict when it is settled, or an attempt is under way
 */
export function retryEntry(tx: Tx, id: string, now: number): void {
  const { seq, domain } = idleEntry(tx, id, now);
  release(tx, seq, domain, now);
}

/** Gives an entry up; nobody is told. @throws AppError as retryEntry */
export function cancelEntry(tx: Tx, id: string, now: number): void {
  const entry = idleEntry(tx, id, now);
  settle(tx, [entry], "cancelled", now, entry.reply);
}

function idleEntry(tx: Tx, id: string, now: number): QueueEntry {
  const entry = settling(tx).entry.get({ id });
  if (!entry) throw new AppError("not_found", `There is no queue entry ${id}`);
  const { state, leased, dueAt } = entry;
  if (state !== "waiting" && state !== "held") throw new AppError("conflict", `Queue entry ${id} is ${state} already`);
  if (leased && (dueAt ?? 0) > now) {
    throw new AppError("conflict", `An attempt to deliver queue entry ${id} is under way; try again when it has ended`);
  }
  return entry;
}
