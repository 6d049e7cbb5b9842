/**
 * RCPT at the MX listener: finds the route of mail to a recipient, and decides whether this peer may name it. The transaction
 * keeps the route until the message is filed.
 *
 * A server that the operator does not trust may name only so many recipients, is refused when a blocklist lists it, is slowed
 * down when it guesses, and is deferred when it writes to a recipient for the first time (greylist.ts).
 *
 * Invariant: known recipients are never delayed.
 */
import { createSlowdown, type Pace } from "../access/slowdown.ts";
import { type Route, routeIncomingMail } from "../mailbox/state/addresses.ts";
import { hasStorageForMessage } from "../mailbox/state/mailboxes.ts";
import { splitAddress } from "../message/address.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Core, Reader } from "../store/core.ts";
import { isDiskReserveSpent } from "../store/reserve.ts";
import { isWorkspaceServed } from "../store/unserved-workspaces.ts";
import { type Admitted, createPeerRateLimit, type Peer, type Transaction } from "./connect.ts";
import { findSentByReturnPath } from "./feedback.ts";
import type { Greylist } from "./greylist.ts";

/** Verifies a domain (A-labels) if its records are published. Limits how often it queries DNS, and how long it takes. */
export type VerifyOnArrival = (domain: string) => Promise<void>;

/**
 * Finds the route of mail to a recipient. `declaredSize` is that of MAIL, 0 when none was given. At an unverified domain this
 * takes a while, because it looks up the domain's records.
 * @throws Refusal storeUnavailable, unknownRecipient, notOurs, notVerified, moving, mailboxFull
 */
export async function resolveRecipient(
  core: Core,
  verifyOnArrival: VerifyOnArrival,
  address: string,
  declaredSize: number,
): Promise<Admitted> {
  const { db, site } = core;
  if (isDiskReserveSpent(site.folder)) throw new Refusal("storeUnavailable");
  // A report on mail that we sent is read even when the mailbox is gone or full.
  const sent = findSentByReturnPath(db, address);
  if (sent !== undefined) {
    if (!isWorkspaceServed(db, sent.message.workspaceId)) throw new Refusal("moving");
    return { address, sent };
  }
  let route = findRoute(core, address);
  if (route.kind === "unverified") {
    await verifyOnArrival(route.domain);
    route = findRoute(core, address);
  }
  if (route.kind === "not-local") throw new Refusal("notOurs");
  if (route.kind === "unverified") throw unverifiedDomainRefusal(route);
  if (route.kind === "moving") throw new Refusal("moving");
  if (route.kind === "unknown") throw new Refusal("unknownRecipient");
  if (!hasStorageForMessage(core, route, Math.max(declaredSize, 1))) throw new Refusal("mailboxFull");
  return { address, route };
}

/**
 * Finds the route of an address. A local part that no address can have, such as `name.`, has none; the route of the domain's
 * postmaster, whom every domain has (RFC 5321 §4.5.1), then tells whether the domain is ours.
 */
function findRoute({ db, now }: Reader, address: string): Route {
  const route = routeIncomingMail(db, address, now());
  if (route.kind !== "not-local") return route;
  const postmaster = routeIncomingMail(db, `postmaster@${splitAddress(address).domain}`, now());
  return postmaster.kind === "mailbox" ? { kind: "unknown" } : postmaster;
}

export const unverifiedDomainRefusal = ({ domain }: Extract<Route, { kind: "unverified" }>): Refusal =>
  new Refusal("notVerified", undefined, `${domain} is not verified here yet, try again later`);

const MINUTE_MS = 60_000;
/**
 * An honest sender with an old address in its list gets its refusal at once, or after a few seconds, which its queue does not
 * notice.
 */
const GUESSING: Pace = { freeFailures: 5, firstDelayMs: 500, longestDelayMs: 10_000, forgottenAfterMs: 10 * MINUTE_MS };
/** Unknown recipients of one connection since its last message. */
const MOST_UNKNOWN = 20;
/** Delayed replies to one source at once. A source that opens more connections instead of waiting gets no reply. */
const MOST_DELAYED = 10;

/** Role addresses, where senders complain about refusals (RFC 5321 §4.5.1, RFC 2142 §4). */
const ROLE_ADDRESS = /^(postmaster|abuse)(@|$)/i;

/** `resolve`: see resolveRecipient. */
export function createAdmitRecipient(
  core: Core,
  greylist: Greylist,
  resolve: (address: string, declaredSize: number) => Promise<Admitted>,
) {
  const { options } = core;
  const mayName = createPeerRateLimit(core, "mx.recipientsPerMinute", "minute", "hour");
  const slowdown = createSlowdown(core.runtime, GUESSING);
  /** Delayed replies by source. */
  const delayed = new Map<string, number>();

  /** Resolves when the reply to an unknown recipient may be sent. @throws Refusal tooManyGuesses */
  async function delay({ source, network }: Peer): Promise<void> {
    const others = delayed.get(source) ?? 0;
    if (others >= MOST_DELAYED) throw new Refusal("tooManyGuesses");
    delayed.set(source, others + 1);
    await slowdown.failed(source, network);
    const left = (delayed.get(source) ?? 1) - 1;
    if (left > 0) delayed.set(source, left);
    else delayed.delete(source);
  }

  async function requireUnlisted({ address, listing }: Peer): Promise<void> {
    const listed = await listing;
    if (!listed) return;
    const { zone, reason } = listed;
    const text = `${address} is listed by ${zone}${reason ? `: ${reason}` : ""}`;
    throw new Refusal("blocklisted", undefined, text);
  }

  /** Resolves a recipient as `resolve` does, and counts and delays guesses. */
  async function resolveGuess(peer: Peer, address: string, declaredSize: number): Promise<Admitted> {
    try {
      return await resolve(address, declaredSize);
    } catch (error) {
      if (!(error instanceof Refusal) || error.reason !== "unknownRecipient") throw error;
      peer.unknownRecipients++;
      await delay(peer);
      throw peer.unknownRecipients >= MOST_UNKNOWN ? new Refusal("tooManyGuesses") : error;
    }
  }

  /**
   * Allows one recipient for mail without a reverse-path: a report goes to the sender of the message that it is about (RFC 3464
   * §2), an automatic answer to the author (RFC 3834 §4). A missing reverse-path alone is no reason to refuse mail.
   */
  function requireOneReport({ reversePath, admitted }: Transaction, address: string): void {
    if (reversePath !== "") return;
    const isOther = (known: string) => known.toLowerCase() !== address.toLowerCase();
    if ([...admitted.keys()].some(isOther)) throw new Refusal("oneReportEach");
  }

  /**
   * Adds a recipient to the transaction.
   * @throws Refusal those of `resolve`, tooManyRecipients, oneReportEach, blocklisted, tooManyGuesses, greylisted
   */
  return async function admitRecipient(
    peer: Peer,
    transaction: Transaction,
    address: string,
    declaredSize: number,
  ): Promise<void> {
    const { reversePath, admitted } = transaction;
    if (peer.isTrusted) {
      admitted.set(address, await resolve(address, declaredSize));
      return;
    }
    requireOneReport(transaction, address);
    if (!mayName(peer)) throw new Refusal("tooManyRecipients");
    const isRole = ROLE_ADDRESS.test(address);
    if (!isRole) await requireUnlisted(peer);
    const recipient = await resolveGuess(peer, address, declaredSize);
    const wait = options.get("mx.greylistSeconds");
    if (wait !== "off" && !isRole) {
      await greylist.admit({ network: peer.network, reversePath, recipient: address }, wait * 1000);
    }
    admitted.set(address, recipient);
  };
}
