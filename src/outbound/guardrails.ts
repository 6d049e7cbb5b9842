/**
 * The guardrails of sending, all in one place (rules: Sending pipeline, Sender, Recipients, Sending caps, Warm-up, Pause, Order
 * of refusals, Errors). Nothing here writes: the limits count rows of outbound_messages, so no count can drift from the mail
 * that was sent.
 *
 * The pipeline asks them before it composes a message, to refuse early, and again in the transaction that accepts the message,
 * so that two messages at the edge of a limit cannot both pass.
 */
import { and, eq, gte, isNotNull, sql } from "drizzle-orm";
import { type Caller, findReach, type Reach, requireAccess } from "../access/caller.ts";
import { AppError, type ErrorCode } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import { hasMailboxExpired, localDomain } from "../mailbox/state/addresses.ts";
import { findMailboxByAddress, type Usage } from "../mailbox/state/mailboxes.ts";
import { type EmailAddress, isAddressLiteral, normalizeAddress, splitAddress } from "../message/address.ts";
import { quoteRefusedInput } from "../message/recipients.ts";
import type { Core } from "../store/core.ts";
import {
  domains,
  mailboxes,
  outboundMessages,
  RECIPIENT_FIELDS,
  type RecipientField,
  workspaces,
} from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import { prepared, statement } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import type { Recipient } from "./queue.ts";
import { suppressedAmong } from "./suppression.ts";

export interface Sender {
  reach: Reach;
  /** Normalized. */
  address: string;
}

/**
 * Finds the mailbox that `address` (in any case) belongs to. `alias`: an alias will do as well.
 * @throws AppError unprocessable for an address that the caller cannot send from, whoever has it; forbidden for one in a
 * mailbox that is shared with them for viewing only
 */
export function resolveSender(db: Db, caller: Caller, address: string, { alias }: { alias: boolean }): Sender {
  const normalized = normalizeAddress(address);
  const { workspaceId } = caller;
  const found = normalized === undefined ? undefined : findMailboxByAddress(db, workspaceId, normalized);
  const reach = found && findReach(db, caller, found.mailboxId);
  if (normalized === undefined || !found || !reach) {
    throw new AppError(
      "unprocessable",
      `You cannot send from ${quoteRefusedInput(address)}: it is not a mailbox that you reach`,
    );
  }
  if (found.kind === "alias" && !alias) {
    throw new AppError("unprocessable", `${normalized} is an alias: send from ${reach.mailbox.address} instead`);
  }
  requireAccess(reach, "send");
  return { reach, address: normalized };
}

/** Lists each address once, however it is spelled. For an address in several fields the first of To, Cc, Bcc counts. */
export function mergeRecipients(fields: Readonly<Record<RecipientField, readonly EmailAddress[]>>): Recipient[] {
  const byAddress = new Map<string, Recipient>();
  for (const field of RECIPIENT_FIELDS) {
    for (const address of fields[field]) {
      const key = normalizeAddress(address.email) ?? address.email;
      if (!byAddress.has(key)) byAddress.set(key, { ...address, field });
    }
  }
  return [...byAddress.values()];
}

interface Origin {
  mailboxId: string;
  workspaceId: string;
  /** Address of the From header; normalized. */
  from: string;
}

/** The parts of a message that the limits need. */
export interface GuardedMessage extends Origin {
  recipients: readonly Recipient[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const { acceptedAt, outsideRecipients } = outboundMessages;

type Owner = "mailbox" | "workspace";

/**
 * Counts the recipients that an owner sent to since a time. Each message stores the owner's total up to it, so the count is the
 * last total less the total before the first message: two look-ups for any number of messages. `+?` as in store/statement.ts.
 */
const writeWindowSql = (owner: Owner) =>
  `SELECT before, (SELECT max(${owner}_total) FROM outbound_messages WHERE ${owner}_id = +?1) - before AS taken
   FROM (SELECT ${owner}_total - recipients AS before FROM outbound_messages
         WHERE ${owner}_id = +?1 AND accepted_at > +?2 ORDER BY accepted_at, ${owner}_total LIMIT 1)`;

/** Finds the message with which the owner's total reached a number. Messages of one instant leave the window together. */
const reachedAt = (owner: Owner) =>
  `SELECT accepted_at AS acceptedAt FROM outbound_messages
   WHERE ${owner}_id = +?1 AND ${owner}_total >= +?2 ORDER BY ${owner}_total LIMIT 1`;

const createCapStatements = (owner: Owner) => ({
  window: statement<{ before: number; taken: number }, [id: string, since: number]>(writeWindowSql(owner)),
  reached: statement<{ acceptedAt: number }, [id: string, total: number]>(reachedAt(owner)),
});
const ofMailbox = createCapStatements("mailbox");
const ofWorkspace = createCapStatements("workspace");

const queries = prepared((db) => ({
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
  outsideOfDomain: db
    .select({ total: sql<number>`coalesce(sum(${outsideRecipients}), 0)` })
    .from(outboundMessages)
    .where(and(eq(outboundMessages.domain, sql.placeholder("domain")), gte(acceptedAt, sql.placeholder("midnight"))))
    .prepare(),
}));

/** Returns today and the day of a domain's warm-up, from 0, as UTC days. */
function warmupDay(verifiedAt: number, now: number): { today: number; day: number } {
  const today = Math.floor(now / DAY_MS);
  return { today, day: Math.max(0, today - Math.floor(verifiedAt / DAY_MS)) };
}

const sentOutside = (db: Db, domain: string, today: number): number =>
  queries(db).outsideOfDomain.get({ domain, midnight: today * DAY_MS })?.total ?? 0;

export interface WarmupUse {
  domain: string;
  /** Recipients outside this server: `used` today (UTC), and `ceiling` for today. */
  used: number;
  ceiling: number;
}

/** Lists the domains that are still warming up at `now` (epoch ms). */
export function listWarmup(db: Db, options: Options, now: number): WarmupUse[] {
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

/** @throws AppError unprocessable */
function requireSender(db: Db, { from, workspaceId }: Origin): { verifiedAt: number } {
  const { domain: name } = splitAddress(from);
  const domain = queries(db).verifiedDomain.get({ name });
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

/** @throws AppError unprocessable for a mailbox that is gone or has expired */
function getSendingMailbox(db: Db, { mailboxId, from }: Origin, now: number) {
  const mailbox = queries(db).mailbox.get({ mailboxId });
  if (!mailbox) throw new AppError("unprocessable", `${from} is no longer a mailbox`);
  if (hasMailboxExpired(mailbox, now)) {
    const { address, expiresAt } = mailbox;
    throw new AppError(
      "unprocessable",
      `The mailbox ${address} expired at ${formatRetryTime(expiresAt ?? now)}: nothing can be sent from it`,
    );
  }
  return mailbox;
}

/**
 * Checks, before there is a message, that the sender may send at `now` (epoch ms).
 * @throws AppError unprocessable, locked (paused)
 */
export function requireMaySend(db: Db, origin: Origin, now: number): void {
  requireSender(db, origin);
  requireNotPaused(getSendingMailbox(db, origin, now));
}

/**
 * Checks that a message may be sent at `now` (epoch ms), apart from room in queue and mailbox. `isHeld`: it waits for a
 * person first, so the caps do not count yet.
 * @throws AppError unprocessable (sender, recipients), locked (paused), rate_limited (caps, with Retry-After), server_error
 * 503 (the workspace moves away)
 */
export function requireSendingAllowed(
  { options }: Core,
  db: Db,
  message: GuardedMessage,
  now: number,
  { isHeld = false }: { isHeld?: boolean } = {},
): void {
  requireWorkspaceServed(db, message.workspaceId);
  const { verifiedAt } = requireSender(db, message);
  const mailbox = getSendingMailbox(db, message, now);
  requireRecipients(options, db, message);
  requireNotPaused(mailbox);
  if (isHeld) return;
  requireHourlyCaps(options, db, message, mailbox.address, now);
  requireWarmup(options, db, message, verifiedAt, now);
}

/** @throws AppError unprocessable */
function requireRecipients(options: Options, db: Db, { recipients, workspaceId }: GuardedMessage): void {
  const most = options.get("sending.maxRecipients");
  if (recipients.length > most) {
    throw new AppError(
      "unprocessable",
      `The message has ${recipients.length} recipients, Cc and Bcc included; at most ${most} are allowed`,
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
      `Nothing was sent, because the suppression list has ${suppressed.join(", ")}: leave that out, or ask an admin to remove it`,
    );
  }
}

/** @throws AppError rate_limited */
function requireHourlyCaps(options: Options, db: Db, message: GuardedMessage, address: string, now: number): void {
  const caps = [
    [address, message.mailboxId, options.get("sending.mailboxPerHour"), ofMailbox],
    ["this workspace", message.workspaceId, options.get("sending.workspacePerHour"), ofWorkspace],
  ] as const;
  const count = message.recipients.length;
  for (const [who, owner, cap, { window, reached }] of caps) {
    if (count > cap) {
      throw limited(
        `The message has ${count} recipients, more than the ${cap} that ${who} may send to within 60 minutes: it fits only if it is divided`,
        HOUR_MS,
      );
    }
    const { before, taken } = window(db).get(owner, now - HOUR_MS) ?? { before: 0, taken: 0 };
    if (taken + count <= cap) continue;
    const leaves = reached(db).get(owner, before + taken + count - cap)?.acceptedAt ?? now;
    throw limited(
      `The hourly limit of ${who} is ${cap} recipients; ${taken} were sent to in the last 60 minutes, and this message has ${count}. It fits at ${formatRetryTime(leaves + HOUR_MS)}`,
      leaves + HOUR_MS - now,
    );
  }
}

/** rules: Warm-up. @throws AppError rate_limited */
function requireWarmup(options: Options, db: Db, message: GuardedMessage, verifiedAt: number, now: number): void {
  const ceilings = options.get("sending.warmup");
  if (ceilings === "off") return;
  const { day, today } = warmupDay(verifiedAt, now);
  const ceiling = ceilings[day];
  if (ceiling === undefined) return;
  const outside = countOutsideRecipients(db, message);
  if (outside === 0) return;
  const { domain } = splitAddress(message.from);
  const total = sentOutside(db, domain, today);
  if (total + outside <= ceiling) return;
  const fitting = ceilings.findIndex((later, i) => i > day && outside <= later);
  const fits = (today - day + (fitting < 0 ? ceilings.length : fitting)) * DAY_MS;
  throw limited(
    `The domain ${domain} is new: on day ${day + 1} it may reach ${ceiling} recipients outside this server, ${total} were sent to today (UTC), and this message has ${outside}. It fits at ${formatRetryTime(fits)}`,
    fits - now,
  );
}

/** Counts the recipients that are not at this server. */
export function countOutsideRecipients(
  db: Db,
  { workspaceId, recipients }: Pick<GuardedMessage, "workspaceId" | "recipients">,
): number {
  return recipients.filter(({ email }) => localDomain(db, workspaceId, splitAddress(email).domain) === undefined)
    .length;
}

/**
 * Checks that `bytes` more fit into a mailbox. A change that takes no more than before always fits.
 * @throws AppError insufficient_storage, or `code`, when `bytes` more do not fit into the mailbox `address`; insufficient_storage
 * when they do not fit into its workspace
 */
export function requireMailboxSpace(
  usage: Usage,
  bytes: number,
  address: string,
  code: ErrorCode = "insufficient_storage",
): void {
  if (bytes <= 0 || usage.bytes + bytes <= usage.quotaBytes) return;
  const { workspaceRoom } = usage;
  if (workspaceRoom !== undefined && bytes > workspaceRoom) {
    throw new AppError(
      "insufficient_storage",
      `The workspace is out of storage: ${workspaceRoom} bytes are left, and the message does not fit`,
    );
  }
  throw new AppError(
    code,
    `${address} is out of storage: ${usage.bytes} of ${usage.quotaBytes} bytes are in use, and the message does not fit`,
  );
}

const limited = (message: string, waitMs: number): AppError =>
  new AppError("rate_limited", message, { retryAfter: Math.max(1, Math.ceil(waitMs / 1_000)) });

/** Writes a time to the second, rounded up as Retry-After is. */
const formatRetryTime = (ms: number): string => toIsoTime(Math.ceil(ms / 1_000) * 1_000).replace(".000Z", "Z");
