/**
 * The guardrails of sending, all in one place (rules: Sending pipeline, Recipients, Sending caps, Warm-up, Pause, Order
 * of refusals, Errors). Nothing here writes: what was accepted before is counted in outbound_messages, so no count can
 * drift from what was sent.
 *
 * They are asked before a message is composed, to refuse early, and again in the transaction that accepts it, so that two
 * messages at the edge of a limit cannot both pass.
 */
import { and, eq, gte, isNotNull, sql } from "drizzle-orm";
import { AppError, type ErrorCode } from "../base/errors.ts";
import { hasExpired } from "../mailbox/addresses.ts";
import type { Usage } from "../mailbox/usage.ts";
import { isAddressLiteral, normalizeAddress, splitAddress } from "../message/address.ts";
import { domains, mailboxes, outboundMessages, workspaces } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import type { Recipient } from "./envelope.ts";
import type { LocalDelivery } from "./local.ts";
import { suppressedAmong } from "./suppression.ts";

/** A message to send, as far as the limits need it. */
export interface Attempt {
  mailboxId: string;
  workspaceId: string;
  /** Address of the From header; normalized. */
  from: string;
  recipients: readonly Recipient[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const { acceptedAt, outsideRecipients } = outboundMessages;

type Owner = "mailbox" | "workspace";

/**
 * Recipients that an owner sent to since a time. Each message stores the owner's total with it, so the last total less the
 * one before the first message tells, however many lie between. `+?` as in store/drizzle.ts.
 */
const windowOf = (owner: Owner) =>
  `SELECT before, (SELECT max(${owner}_total) FROM outbound_messages WHERE ${owner}_id = +?1) - before AS taken
   FROM (SELECT ${owner}_total - recipients AS before FROM outbound_messages
         WHERE ${owner}_id = +?1 AND accepted_at > +?2 ORDER BY accepted_at, ${owner}_total LIMIT 1)`;

/** The message with which the owner's total reached a number; messages of one instant leave the window together. */
const reachedAt = (owner: Owner) =>
  `SELECT accepted_at AS acceptedAt FROM outbound_messages
   WHERE ${owner}_id = +?1 AND ${owner}_total >= +?2 ORDER BY ${owner}_total LIMIT 1`;

const statements = prepared((db) => {
  const capOf = (owner: Owner) => ({
    window: db.$client.prepare<{ before: number; taken: number }, [id: string, since: number]>(windowOf(owner)),
    reached: db.$client.prepare<{ acceptedAt: number }, [id: string, total: number]>(reachedAt(owner)),
  });
  return {
    verifiedDomain: db
      .select({ workspaceId: domains.workspaceId, verifiedAt: domains.verifiedAt })
      .from(domains)
      .where(and(eq(domains.name, sql.placeholder("name")), isNotNull(domains.verifiedAt)))
      .prepare(),
    mailbox: db
      .select({
        address: mailboxes.address,
        paused: mailboxes.pausedReason,
        workspacePaused: workspaces.pausedReason,
        expiresAt: mailboxes.expiresAt,
      })
      .from(mailboxes)
      .innerJoin(workspaces, eq(workspaces.id, mailboxes.workspaceId))
      .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
      .prepare(),
    ofMailbox: capOf("mailbox"),
    ofWorkspace: capOf("workspace"),
    outsideOfDomain: db
      .select({ total: sql<number>`coalesce(sum(${outsideRecipients}), 0)` })
      .from(outboundMessages)
      .where(and(eq(outboundMessages.domain, sql.placeholder("domain")), gte(acceptedAt, sql.placeholder("midnight"))))
      .prepare(),
  };
});

/** UTC days: today, and which day of its warm-up a domain is at, from 0. */
function warmupDay(verifiedAt: number, now: number): { today: number; day: number } {
  const today = Math.floor(now / DAY_MS);
  return { today, day: Math.max(0, today - Math.floor(verifiedAt / DAY_MS)) };
}

const sentOutside = (db: Db, domain: string, today: number): number =>
  statements(db).outsideOfDomain.get({ domain, midnight: today * DAY_MS })?.total ?? 0;

export interface WarmupUse {
  domain: string;
  /** Recipients outside this server that were sent to today (UTC), and that may be. */
  used: number;
  ceiling: number;
}

/** Of the domains that are still warming up at `now` (epoch ms). */
export function listWarmup(db: Db, options: Pick<Options, "get">, now: number): WarmupUse[] {
  const ceilings = options.get("sending.warmup");
  if (ceilings === "off") return [];
  const verified = db.select({ domain: domains.name, verifiedAt: domains.verifiedAt }).from(domains).all();
  return verified.flatMap(({ domain, verifiedAt }) => {
    if (verifiedAt === null) return [];
    const { today, day } = warmupDay(verifiedAt, now);
    const ceiling = ceilings[day];
    return ceiling === undefined ? [] : [{ domain, used: sentOutside(db, domain, today), ceiling }];
  });
}

type From = Pick<Attempt, "mailboxId" | "workspaceId" | "from">;

/** @throws AppError unprocessable */
function requireSender(db: Db, { from, workspaceId }: From): { verifiedAt: number } {
  const { domain: name } = splitAddress(from);
  const domain = statements(db).verifiedDomain.get({ name });
  if (domain?.workspaceId === workspaceId && domain.verifiedAt !== null) return { verifiedAt: domain.verifiedAt };
  const why = domain ? "was verified by another workspace" : "is not verified";
  throw new AppError("unprocessable", `The domain ${name} ${why}, so nothing can be sent from ${from}`);
}

/** @throws AppError locked */
function requireNotPaused(mailbox: { address: string; paused: string | null; workspacePaused: string | null }): void {
  if (mailbox.paused !== null) {
    throw new AppError("locked", `Sending from ${mailbox.address} is paused: ${mailbox.paused}`);
  }
  if (mailbox.workspacePaused !== null) {
    throw new AppError("locked", `Sending is paused for the whole workspace: ${mailbox.workspacePaused}`);
  }
}

/** @throws AppError unprocessable for one that is gone or has expired */
function mailboxOf(db: Db, { mailboxId, from }: From, now: number) {
  const mailbox = statements(db).mailbox.get({ mailboxId });
  if (!mailbox) throw new AppError("unprocessable", `${from} is no mailbox any more`);
  if (hasExpired(mailbox, now)) {
    const { address, expiresAt } = mailbox;
    throw new AppError(
      "unprocessable",
      `The mailbox ${address} expired at ${shown(expiresAt ?? now)}: nothing can be sent from it`,
    );
  }
  return mailbox;
}

/**
 * Passes a sender from whom something may be sent at `now` (epoch ms), to whomever: asked before there is a message.
 * @throws AppError unprocessable, locked (paused)
 */
export function requireMaySend(db: Db, from: From, now: number): void {
  requireSender(db, from);
  requireNotPaused(mailboxOf(db, from, now));
}

export interface LimitsParts {
  options: Pick<Options, "get">;
  local: Pick<LocalDelivery, "isLocal">;
}

/**
 * Passes a message that may be sent at `now` (epoch ms), except for room in queue and mailbox.
 * @throws AppError unprocessable (sender, recipients), locked (paused), rate_limited (caps, with Retry-After)
 */
export function requireAllowed(parts: LimitsParts, db: Db, attempt: Attempt, now: number): void {
  const { verifiedAt } = requireSender(db, attempt);
  const mailbox = mailboxOf(db, attempt, now);
  requireRecipients(parts, db, attempt);
  requireNotPaused(mailbox);
  requireHourlyCaps(parts, db, attempt, mailbox.address, now);
  requireWarmup(parts, db, attempt, verifiedAt, now);
}

/** @throws AppError unprocessable */
function requireRecipients({ options }: LimitsParts, db: Db, { recipients, workspaceId }: Attempt): void {
  const most = options.get("sending.maxRecipients");
  if (recipients.length > most) {
    throw new AppError(
      "unprocessable",
      `The message has ${recipients.length} recipients, Cc and Bcc included; ${most} is the most`,
    );
  }
  const addresses = recipients.map(({ email }) => email);
  const malformed = addresses.find((email) => normalizeAddress(email) === undefined || isAddressLiteral(email));
  if (malformed !== undefined) {
    throw new AppError("unprocessable", `Mail cannot be sent to "${malformed}": it is not an email address`);
  }
  const suppressed = suppressedAmong(db, workspaceId, addresses);
  if (suppressed.length > 0) {
    throw new AppError(
      "unprocessable",
      `On the suppression list, so nothing was sent: ${suppressed.join(", ")}. Leave it out, or have an admin remove it`,
    );
  }
}

/** @throws AppError rate_limited */
function requireHourlyCaps({ options }: LimitsParts, db: Db, attempt: Attempt, address: string, now: number): void {
  const { ofMailbox, ofWorkspace } = statements(db);
  const caps = [
    [address, attempt.mailboxId, options.get("sending.mailboxPerHour"), ofMailbox],
    ["this workspace", attempt.workspaceId, options.get("sending.workspacePerHour"), ofWorkspace],
  ] as const;
  const count = attempt.recipients.length;
  for (const [who, owner, cap, { window, reached }] of caps) {
    if (count > cap) {
      throw limited(
        `The message has ${count} recipients, more than the ${cap} that ${who} may send to within 60 minutes: it never fits unless it is divided`,
        HOUR_MS,
      );
    }
    const { before, taken } = window.get(owner, now - HOUR_MS) ?? { before: 0, taken: 0 };
    if (taken + count <= cap) continue;
    const leaves = reached.get(owner, before + taken + count - cap)?.acceptedAt ?? now;
    throw limited(
      `The hourly limit of ${who} is ${cap} recipients; ${taken} were sent to in the last 60 minutes, and this message has ${count}. It fits at ${shown(leaves + HOUR_MS)}`,
      leaves + HOUR_MS - now,
    );
  }
}

/** rules: Warm-up. @throws AppError rate_limited */
function requireWarmup(parts: LimitsParts, db: Db, attempt: Attempt, verifiedAt: number, now: number): void {
  const ceilings = parts.options.get("sending.warmup");
  if (ceilings === "off") return;
  const { day, today } = warmupDay(verifiedAt, now);
  const ceiling = ceilings[day];
  if (ceiling === undefined) return;
  const outside = countOutside(parts, attempt);
  if (outside === 0) return;
  const { domain } = splitAddress(attempt.from);
  const total = sentOutside(db, domain, today);
  if (total + outside <= ceiling) return;
  const fitting = ceilings.findIndex((later, i) => i > day && outside <= later);
  const fits = (today - day + (fitting < 0 ? ceilings.length : fitting)) * DAY_MS;
  throw limited(
    `The domain ${domain} is new: on day ${day + 1} it may reach ${ceiling} recipients outside this server, ${total} were sent to today (UTC), and this message has ${outside}. It fits at ${shown(fits)}`,
    fits - now,
  );
}

/** The number of recipients that are not at this server. */
export function countOutside(
  { local }: LimitsParts,
  { workspaceId, recipients }: Pick<Attempt, "workspaceId" | "recipients">,
): number {
  return recipients.filter(({ email }) => !local.isLocal(workspaceId, splitAddress(email).domain)).length;
}

/**
 * What takes no more than before fits, however full the mailbox is.
 * @throws AppError insufficient_storage, or `code`, when `bytes` more do not fit into the mailbox `address`
 */
export function requireRoom(
  usage: Usage,
  bytes: number,
  address: string,
  code: ErrorCode = "insufficient_storage",
): void {
  if (bytes <= 0 || usage.bytes + bytes <= usage.quotaBytes) return;
  throw new AppError(
    code,
    `${address} is out of storage: ${usage.bytes} of ${usage.quotaBytes} bytes are in use, and the message does not fit`,
  );
}

const limited = (message: string, waitMs: number): AppError =>
  new AppError("rate_limited", message, { retryAfter: Math.max(1, Math.ceil(waitMs / 1_000)) });

/** To the second, rounded up as Retry-After is. */
const shown = (ms: number): string => new Date(Math.ceil(ms / 1_000) * 1_000).toISOString().replace(".000Z", "Z");
