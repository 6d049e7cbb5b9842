/**
 * Claims on the outbound queue (queue.ts): leases due entries to the relay until it has recorded the outcome.
 *
 * Invariants: an entry is attempted only under a lease, so a crash repeats an attempt and never loses one. An entry that is
 * being attempted is not claimed again, whatever the duration of the attempt and the changes of the clock. Leases of a process
 * that has ended are due at the next start.
 */
import { and, asc, eq, gt, isNotNull, lte, sql } from "drizzle-orm";
import type { Core } from "../store/core.ts";
import { domains, outboundMessages, QUEUE_LINES, type QueueLine, queueDomains, queueEntries } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { isWorkspaceServed } from "../store/unserved-workspaces.ts";
import {
  bySeq,
  correctAcceptedTimes,
  correctDomainDueTime,
  correctDomainDueTimes,
  domainRows,
  type EntryRef,
  isWaiting,
  makeQueueEntryDue,
  type OutboundMessage,
  parkWorkspaceQueue,
  type QueueEntry,
  sqlPlaceholder,
} from "./queue.ts";

/** Entries of one message that are attempted together, under a lease. */
export interface Claim {
  message: OutboundMessage;
  /** Entries in the order of the message, at least one. */
  entries: QueueEntry[];
  /** The domain of the entry that was due first, and of the others unless they go `together`. */
  domain: string;
  /** Epoch ms. */
  leaseUntil: number;
}

/** The terms of a claim. Times are epoch ms. */
export interface ClaimTerms {
  now: number;
  leaseUntil: number;
  /** Tells whether entries at the domain `other` go in the same SMTP transaction as those at `domain`. */
  together?: (message: OutboundMessage, domain: string, other: string) => boolean;
  /** Domain to which the claimed entries are limited. */
  domain?: string;
  /** True: only entries of verified domains of this server are claimed. Mail to them stays here, whoever sends it. */
  own?: boolean;
  /** Returns the time from which a domain may be attempted: in the future while it rests, Infinity while it is busy. */
  notBefore?: (domain: string) => number;
  /** The lines with a free slot, in the order of service. Default: all. */
  lines?: readonly QueueLine[];
  /**
   * Returns the line that a domain belongs to; the claim moves it there when that line has no free slot. Default: its present
   * line.
   */
  getQueueLine?: (domain: string) => QueueLine;
}

/** Every server accepts this many in one transaction (RFC 5321 §4.5.3.1.8). */
const MOST_RECIPIENTS = 100;
/** Most domains that one claim postpones: it blocks other writes meanwhile. */
const MOST_PUT_OFF = 1_000;
/** Domains read by one query; most often the first is claimed. */
const DOMAINS_PAGE = 16;

const claiming = prepared((db) => {
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
    // A cross join keeps its order in SQLite: a server has few domains, and its queue may have many.
    ownDomains: db
      .select(row)
      .from(domains)
      .crossJoin(queueDomains)
      .where(and(eq(queueDomains.domain, domains.name), isNotNull(domains.verifiedAt), upTo, after))
      .orderBy(...byDue)
      .limit(DOMAINS_PAGE)
      .prepare(),
    // The plus sign makes SQLite search by the message, which has few entries, and never by the state, which many may share.
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
      .set({ leased: true, dueAt: sqlPlaceholder("until") })
      .where(bySeq)
      .prepare(),
    extend: db
      .update(queueEntries)
      .set({ dueAt: sqlPlaceholder("until") })
      .where(and(bySeq, eq(queueEntries.leased, true)))
      .prepare(),
    setLine: db
      .update(queueDomains)
      .set({ line: sqlPlaceholder("line") as never })
      .where(eq(queueDomains.domain, sql.placeholder("domain")))
      .prepare(),
  };
});

type Terms = Pick<ClaimTerms, "own" | "lines">;

/** Yields the domains whose row is due by `upTo`, line by line, the earliest of each first. */
function* domainsByDue(db: Db, { own = false, lines = QUEUE_LINES }: Terms, upTo: number): Generator<DueDomain> {
  if (own) return yield* inPages((after) => claiming(db).ownDomains.all({ ...after, upTo }));
  for (const line of lines) yield* inPages((after) => claiming(db).domains.all({ ...after, line, upTo }));
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
 * Leases the entry that has been due longest in the first line with an entry that may be attempted, and the entries of the same
 * message that go in the same transaction with the server. Returns undefined when there is none, or when it has postponed so
 * many domains that the next claim must go on.
 */
export function claimQueueEntries(tx: Tx, terms: ClaimTerms): Claim | undefined {
  if (terms.domain !== undefined) return claimDomain(tx, terms.domain, terms);
  const { now, notBefore, lines = QUEUE_LINES, getQueueLine } = terms;
  let putOff = 0;
  for (const { domain } of domainsByDue(tx, terms, now)) {
    if (putOff >= MOST_PUT_OFF) return undefined;
    const from = notBefore?.(domain) ?? 0;
    const line = getQueueLine?.(domain);
    if (line !== undefined && !lines.includes(line)) {
      // Moved, so that the next claim does not read the domain again.
      moveDomainToQueueLine(tx, domain, line);
      putOff++;
    } else if (from <= now) {
      const claimed = claimDomain(tx, domain, terms);
      if (claimed) return claimed;
    } else if (from < Number.POSITIVE_INFINITY) {
      // It rests. Postponed for the same reason.
      domainRows(tx).setDomain.run({ domain, dueAt: from });
      putOff++;
    }
  }
  return undefined;
}

/** Moves a domain with waiting entries into another line. */
export function moveDomainToQueueLine(tx: Tx, domain: string, line: QueueLine): void {
  claiming(tx).setLine.run({ domain, line });
}

function claimDomain(tx: Tx, domain: string, { now, leaseUntil, together }: ClaimTerms): Claim | undefined {
  const first = domainRows(tx).first.get({ domain });
  if (first === undefined || (first.dueAt ?? 0) > now) {
    correctDomainDueTime(tx, domain);
    return undefined;
  }
  const { messageSeq } = first;
  const message = claiming(tx).message.get({ seq: messageSeq });
  if (!message) throw new Error(`queue entry of outbound message ${messageSeq}, which is not there`);
  if (!isWorkspaceServed(tx, message.workspaceId)) {
    parkWorkspaceQueue(tx, message.workspaceId);
    return undefined;
  }
  const entries = claiming(tx)
    .dueOfMessage.all({ messageSeq, now })
    .filter((entry) => entry.domain === domain || together?.(message, domain, entry.domain))
    .slice(0, MOST_RECIPIENTS);
  for (const { seq } of entries) claiming(tx).lease.run({ seq, until: leaseUntil });
  correctDomainDueTimes(tx, entries);
  return {
    message,
    domain,
    leaseUntil,
    entries: entries.map((entry) => ({ ...entry, leased: true, dueAt: leaseUntil })),
  };
}

/**
 * Returns the time from which an entry may be claimed on such terms: epoch ms; undefined when no waiting entry may be
 * attempted.
 */
export function nextQueueDueTime(
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

/** Puts a domain behind the others that are due at `now` (epoch ms). */
export function yieldDomainTurn(tx: Tx, domain: string, now: number): undefined {
  const first = domainRows(tx).first.get({ domain });
  if (first) domainRows(tx).setDomain.run({ domain, dueAt: Math.max(first.dueAt ?? 0, now) });
}

/** Prolongs the leases of these entries to `until` (epoch ms), except for those given back. */
export function extendQueueLeases(tx: Tx, entries: readonly EntryRef[], until: number): void {
  for (const { seq } of entries) claiming(tx).extend.run({ seq, until });
}

/** Gives leases back: the entries are due now, and no attempt is counted, since it was cut short. */
export function releaseQueueEntries(tx: Tx, entries: readonly EntryRef[], now: number): undefined {
  for (const { seq, domain } of entries) makeQueueEntryDue(tx, seq, domain, now);
}

/**
 * Gives every lease back; returns how many. At start all leases are of a process that has ended, since one server has the data
 * folder. Reads all waiting entries.
 */
export function releaseAllQueueLeases(tx: Tx, now: number): number {
  const leased = tx
    .select({ seq: queueEntries.seq, domain: queueEntries.domain })
    .from(queueEntries)
    .where(and(isWaiting, eq(queueEntries.leased, true)))
    .all();
  for (const { seq, domain } of leased) makeQueueEntryDue(tx, seq, domain, now);
  return leased.length;
}

/**
 * Brings forward entries that a clock running ahead has put off too far: without a lease, and due later than the schedule
 * allows (`waits`: ms after the first attempt, the second, …). They become due after the scheduled wait from `now` (epoch ms),
 * or at once when they were put off for longer than any wait. Returns how many. Reads all entries that are due later.
 */
export function recallStrayQueueEntries(tx: Tx, waits: readonly number[], now: number): number {
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
  for (const stray of strays) makeQueueEntryDue(tx, stray.seq, stray.domain, stray.dueAt);
  const resting = tx.select({ name: queueDomains.domain }).from(queueDomains).where(gt(queueDomains.dueAt, now)).all();
  for (const { name } of resting) correctDomainDueTime(tx, name);
  return strays.length;
}

const LEASE_MS = 30 * 60_000;
/** A lease is prolonged when this much of it is left. */
const LEFT_MS = LEASE_MS / 2;

/** Holds the leases of claims that are being attempted. */
export function createQueueLeases({ store, options, runtime, log }: Core) {
  /** Claims that are being attempted, and the end of their leases (epoch ms). */
  const held = new Map<Claim, number>();
  let isStart = true;

  /** Returns the end of a lease that is taken now: epoch ms. */
  const end = (): number => runtime.now() + LEASE_MS;

  const ending = (): Claim[] => {
    const now = runtime.now();
    return [...held].filter(([, until]) => until - now <= LEFT_MS).map(([claim]) => claim);
  };

  /**
   * Prolongs leases that end soon, and returns their claims. `held` gets the new end only after the commit, since the
   * transaction may fail.
   */
  function prolong(tx: Tx): Claim[] {
    const claims = ending();
    for (const { entries } of claims) extendQueueLeases(tx, entries, end());
    return claims;
  }

  /** Takes up attempts that a stop cut short, and entries that a clock running ahead has put off too far. */
  async function takeUp(now: number): Promise<void> {
    const waits = options.get("smtp.retrySeconds").map((seconds) => 1_000 * seconds);
    const { released, recalled } = await store.enqueue((tx) => {
      correctAcceptedTimes(tx, now);
      return {
        released: isStart ? releaseAllQueueLeases(tx, now) : 0,
        recalled: recallStrayQueueEntries(tx, waits, now),
      };
    });
    isStart = false;
    if (released > 0) log.info("took up delivery attempts that a stop had cut short", { recipients: released });
    if (recalled > 0) log.warn("the clock was ahead: took up what it had put off too far", { recipients: recalled });
  }

  return {
    end,
    hold: (claim: Claim): void => void held.set(claim, claim.leaseUntil),
    letGo: (claim: Claim): void => void held.delete(claim),
    /**
     * Prolongs leases that end soon. Each claim calls it first, in its transaction, since the clock may have been set forward.
     */
    keep: (tx: Tx): void => void prolong(tx),

    /**
     * Does the same in a transaction of its own. With `wasAhead` (see Job) it also takes up what a stop or a clock has put off.
     */
    async upkeep(wasAhead: boolean): Promise<void> {
      const now = runtime.now();
      if (wasAhead) await takeUp(now);
      if (ending().length > 0) {
        for (const claim of await store.enqueue(prolong)) if (held.has(claim)) held.set(claim, now + LEASE_MS);
      }
    },

    /** Returns when a lease has to be prolonged: epoch ms; Infinity while none is held. */
    nextUpkeep: (): number => Math.min(...[...held.values()].map((until) => until - LEFT_MS)),

    /** Gives back every held lease, without counting an attempt; if that fails, the next start does. */
    giveBack(): void {
      if (held.size === 0) return;
      try {
        store.transact((tx) => {
          for (const { entries } of held.keys()) releaseQueueEntries(tx, entries, runtime.now());
        });
      } catch (error) {
        log.warn("delivery attempts cut short will be taken up at the next start", { attempts: held.size, error });
      }
    },
  };
}
