/**
 * RCPT at the MX listener: where mail to a recipient goes, and whether this peer may name it. The route that is found here is
 * kept in the transaction and used until the message is filed.
 *
 * Servers that no operator trusts are limited in number of recipients, refused when a blocklist has them, slowed down when
 * they guess, and put off when they write to a recipient for the first time (greylist.ts).
 *
 * Invariant: known recipients are never delayed.
 */
import { createSlowdown, type Pace } from "../access/slowdown.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Route } from "../mailbox/addresses.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { splitAddress } from "../message/address.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Options } from "../store/settings.ts";
import { createAllowance, type Peer } from "./connect.ts";
import type { Feedback } from "./feedback.ts";
import type { Greylist } from "./greylist.ts";
import type { Admitted, Transaction } from "./mail.ts";

/**
 * Finds where mail to a recipient goes. `declaredSize` is that of MAIL, 0 when none was given. At a domain that nobody has
 * verified yet this takes a while: its records are looked up.
 * @throws Refusal unknownRecipient, notOurs, notVerified, mailboxFull
 */
export type Resolve = (address: string, declaredSize: number) => Promise<Admitted>;

export interface ResolveParts {
  mailbox: Pick<Mailbox, "route" | "usage">;
  /** Has a domain (A-labels) verified whose records are published; asks DNS only so often, and takes only so long. */
  verifyOnArrival(domain: string): Promise<void>;
  feedback: Pick<Feedback, "sentWith">;
}

export function createResolve({ mailbox, verifyOnArrival, feedback }: ResolveParts): Resolve {
  /**
   * The route of an address. A local part that no address can have, such as `name.`, has none; the route of the domain's
   * postmaster, whom every domain has (RFC 5321 §4.5.1), then tells whether the domain is ours.
   */
  function routeOf(address: string): Route {
    const route = mailbox.route(address);
    if (route.kind !== "not-local") return route;
    const postmaster = mailbox.route(`postmaster@${splitAddress(address).domain}`);
    return postmaster.kind === "mailbox" ? { kind: "unknown" } : postmaster;
  }

  return async (address, declaredSize) => {
    // A report on mail that we sent is read even when the mailbox is gone or full.
    const sent = feedback.sentWith(address);
    if (sent !== undefined) return { address, sent };
    let route = routeOf(address);
    if (route.kind === "unverified") {
      await verifyOnArrival(route.domain);
      route = routeOf(address);
    }
    if (route.kind === "not-local") throw new Refusal("notOurs");
    if (route.kind === "unverified") throw notVerified(route);
    if (route.kind === "unknown") throw new Refusal("unknownRecipient");
    if (!route.exempt && !fits(mailbox, route.mailboxId, Math.max(declaredSize, 1))) throw new Refusal("mailboxFull");
    return { address, route };
  };
}

export const notVerified = ({ domain }: Extract<Route, { kind: "unverified" }>): Refusal =>
  new Refusal("notVerified", undefined, `${domain} is not verified here yet, try again later`);

/** Whether a message of `size` bytes is within the mailbox's quota. */
export function fits(mailbox: Pick<Mailbox, "usage">, mailboxId: string, size: number): boolean {
  const { bytes, quotaBytes } = mailbox.usage(mailboxId);
  return bytes + size <= quotaBytes;
}

/**
 * Adds a recipient to the transaction.
 * @throws Refusal what `Resolve` throws, tooManyRecipients, oneReportEach, blocklisted, tooManyGuesses, greylisted
 */
export type AdmitRecipient = (
  peer: Peer,
  transaction: Transaction,
  address: string,
  declaredSize: number,
) => Promise<void>;

export interface RcptParts {
  resolve: Resolve;
  options: Pick<Options, "get">;
  greylist: Pick<Greylist, "admit">;
  runtime: Pick<Runtime, "now" | "setTimer">;
}

const MINUTE_MS = 60_000;
/** An old address in an honest sender's list is refused at once, or after seconds that its queue does not notice. */
const GUESSING: Pace = { freeFailures: 5, firstDelayMs: 500, longestDelayMs: 10_000, forgottenAfterMs: 10 * MINUTE_MS };
/** Unknown recipients of one connection since its last message. */
const MOST_UNKNOWN = 20;
/** Delayed replies to one source at once. A source that opens more connections instead of waiting gets no reply. */
const MOST_DELAYED = 10;

/** Mailboxes for complaints about being refused (RFC 5321 §4.5.1, RFC 2142 §4). */
const ROLE_ADDRESS = /^(postmaster|abuse)(@|$)/i;

export function createAdmitRecipient({ resolve, options, greylist, runtime }: RcptParts): AdmitRecipient {
  const mayName = createAllowance(runtime, () => options.get("mx.recipientsPerMinute"), "minute", "hour");
  const slowdown = createSlowdown(runtime, GUESSING);
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

  /** As `resolve`, with guesses counted and delayed. */
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
   * Mail without a reverse-path goes to one recipient: a report to the sender of what it reports on (RFC 3464 §2), an
   * automatic answer to its author (RFC 3834 §4). Other mail may have none either, so mail is not refused for that.
   */
  function requireOneReport({ reversePath, admitted }: Transaction, address: string): void {
    if (reversePath !== "") return;
    const isOther = (known: string) => known.toLowerCase() !== address.toLowerCase();
    if ([...admitted.keys()].some(isOther)) throw new Refusal("oneReportEach");
  }

  return async (peer, transaction, address, declaredSize) => {
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
