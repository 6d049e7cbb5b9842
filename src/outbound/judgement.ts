/**
 * Judges by the policy of an API key whether a message may be sent, has to wait for a person, or is refused (rules:
 * Policies, Held for approval). The accepting code asks before it composes, to refuse early, and again in the
 * transaction that accepts the message, by the policy of that moment.
 */
import { type Caller, isPersonLocked } from "../access/caller.ts";
import { findKeyRestrictions, requireLiveKey } from "../access/credentials.ts";
import {
  comparableAddress,
  isKeyPolicyExpired,
  listForbiddenRecipients,
  PolicyRefusal,
  policyAllowsMailbox,
  type RecipientWord,
} from "../access/policy.ts";
import { AppError } from "../base/errors.ts";
import { requireKeyLimitLeft } from "../journal/limits.ts";
import { isOwnAddress, ownAddresses } from "../mailbox/state/addresses.ts";
import { type EmailAddress, splitAddress } from "../message/address.ts";
import type { Policy } from "../store/schema.ts";
import { statement } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { isKnownRecipient } from "./known-recipients.ts";
import type { Recipient } from "./queue.ts";

/** The parts of a message that policies ask for. */
export interface Judged {
  mailbox: { id: string; address: string; workspaceId: string };
  recipients: readonly Recipient[];
  /** Addresses in its To and Cc, which a mail app writes as it likes, and those that it redirects answers or receipts to. */
  named?: readonly string[];
  /** The conversation that it answers. */
  threadId?: string | undefined;
}

/**
 * Characters of a conversation's addresses that are read, some 100 ms, and addresses that are compared, of those that begin
 * like a sought one. Only strangers write more.
 */
const MOST_READ = 10_000_000;
const MOST_COMPARED = 10_000;

/** Addresses that a refusal or a reason names, of those that it is about. */
const MOST_NAMED = 20;

/** Why a message waits for a person. It names no Bcc recipient. */
export type HoldReason = string;

const statements = {
  verified: statement<object, [name: string, workspaceId: string]>(
    "SELECT 1 FROM domains WHERE name = ? AND workspace_id = ? AND verified_at IS NOT NULL",
  ),
  thread: statement<{ seq: number }, [id: string, mailboxId: string]>(
    "SELECT seq FROM threads WHERE id = ? AND mailbox_id = ?",
  ),
  people: statement<{ people: string }, [seq: number]>(
    `SELECT '[' || "from" || ',' || "to" || ',' || cc || ']' AS people FROM messages
     WHERE thread_seq = ? AND kind IN ('received', 'sent') AND by_key = 0 ORDER BY seq DESC`,
  ),
};

/**
 * Judges a message of a caller; undefined when it may be sent. A caller without a key may send anything, unless they are locked. `isDue`: it was
 * judged when it was scheduled, so whatever its key may not do any more makes it wait. `now`: epoch ms.
 * @throws PolicyRefusal forbidden, with the recipients that the policy refuses, or rate_limited; AppError unauthorized, and as requireLiveKey
 */
export function judgeOutgoingMessage(
  db: Db,
  caller: Caller,
  message: Judged,
  { now, isDue = false }: { now: number; isDue?: boolean | undefined },
): HoldReason | undefined {
  const { keyId } = caller;
  if (keyId === undefined) {
    // What is composed, or was scheduled, may come after the lock. A key of theirs is revoked.
    if (isPersonLocked(db, caller.userId)) throw new AppError("unauthorized", "The person who pressed Send is locked");
    return undefined;
  }
  let policy: Policy;
  if (isDue) {
    const restricted = findKeyRestrictions(db, keyId);
    const reason = reasonAgainst(restricted, message, now);
    if (reason !== undefined) return reason;
    policy = restricted?.policy ?? {};
  } else {
    const present = requireLiveKey(db, caller);
    policy = present.policy ?? {};
    if (!policyAllowsMailbox(policy, message.mailbox)) {
      throw new PolicyRefusal("forbidden", `This API key no longer reaches the mailbox ${message.mailbox.address}`);
    }
    // Of what is due, they were counted when it was scheduled.
    requireKeyLimitLeft(db, present, "recipientsPerDay", message.recipients.length, now);
  }
  const refused = refusedBy(db, policy, message);
  if (refused.length > 0) {
    if (!isDue && policy.otherwise !== "hold") {
      throw new PolicyRefusal(
        "forbidden",
        `The policy of this API key does not let it write to ${listed(refused)}, so nothing was sent. Leave them out, or save a draft for a person to send`,
      );
    }
    return `The key needs approval to write to ${formatRefusedRecipients(message, refused)}`;
  }
  return policy.send === "hold" ? "A person approves everything that this key sends" : undefined;
}

/** Why a key cannot send any more what it has scheduled. */
function reasonAgainst(
  restricted: ReturnType<typeof findKeyRestrictions>,
  { mailbox }: Judged,
  now: number,
): HoldReason | undefined {
  if (!restricted) return "The key was revoked before the message was due";
  const { policy = {}, paused } = restricted;
  if (paused) return "The key was paused when the message was due";
  if (isKeyPolicyExpired(policy, now)) return "The key had expired when the message was due";
  return policyAllowsMailbox(policy, mailbox)
    ? undefined
    : `The key lost the mailbox ${mailbox.address} before the message was due`;
}

/**
 * The addresses, as they are written, that a policy does not let a message go to. Those that its header alone names count:
 * answers go there, and they would take part in the conversation.
 */
function refusedBy(db: Db, policy: Policy, { mailbox, recipients, named = [], threadId }: Judged): string[] {
  const own = ownAddresses(db, mailbox.id);
  const judged = new Set(recipients.map(({ email }) => comparableAddress(email)));
  const addresses = new Set([
    ...recipients.map(({ email }) => email),
    ...named.filter((address) => !judged.has(comparableAddress(address)) && !isOwnAddress(own, address)),
  ]);
  let participants: Set<string> | undefined;
  const tookPart = (address: string): boolean => {
    if (threadId === undefined) return false;
    const sought = () => new Set([...addresses].flatMap((text) => comparableAddress(text) ?? []));
    participants ??= participantsAmong(db, mailbox.id, threadId, sought());
    return participants.has(address);
  };
  const isIn: Record<RecipientWord, (address: string) => boolean> = {
    workspace: (address) => isOfWorkspace(db, mailbox.workspaceId, address),
    known: (address) => isKnownRecipient(db, mailbox.id, address),
    thread: tookPart,
  };
  return listForbiddenRecipients(policy, [...addresses], (word, address) => isIn[word](address));
}

const isOfWorkspace = (db: Db, workspaceId: string, address: string): boolean =>
  statements.verified(db).get(splitAddress(address).domain, workspaceId) !== null;

/**
 * Finds which of the sought addresses (see comparableAddress) are a sender's, or stand in To or Cc, of the conversation's
 * received and sent messages, except messages that a key had filed. Reads the messages once, newest first, however many
 * addresses are sought.
 */
function participantsAmong(db: Db, mailboxId: string, threadId: string, sought: ReadonlySet<string>): Set<string> {
  const found = new Set<string>();
  const thread = statements.thread(db).get(threadId, mailboxId);
  if (!thread) return found;
  const starts = new Set([...sought].map(addressStart));
  let read = 0;
  let compared = 0;
  for (const { people } of statements.people(db).iterate(thread.seq)) {
    read += people.length;
    if (read > MOST_READ || compared > MOST_COMPARED) break;
    for (const { email } of (JSON.parse(people) as (EmailAddress | EmailAddress[])[]).flat()) {
      if (!starts.has(addressStart(email))) continue;
      compared++;
      const address = comparableAddress(email);
      if (address !== undefined && sought.has(address)) found.add(address);
    }
  }
  return found;
}

/** A part of an address that is quick to compare: the local part, up to a tag. */
const addressStart = (address: string): string => (/^[^+@]*/.exec(address)?.[0] ?? "").toLowerCase();

/** Lists the refused recipients for everybody who may read the message, so without Bcc. */
function formatRefusedRecipients({ recipients }: Judged, refused: readonly string[]): string {
  const hidden = new Set(recipients.filter(({ field }) => field === "bcc").map(({ email }) => email));
  const shown = refused.filter((address) => !hidden.has(address));
  return [
    ...(shown.length > 0 ? [listed(shown)] : []),
    ...(shown.length < refused.length ? ["a Bcc recipient"] : []),
  ].join(", ");
}

const listed = (names: readonly string[]): string =>
  names.length <= MOST_NAMED
    ? names.join(", ")
    : `${names.slice(0, MOST_NAMED).join(", ")} and ${names.length - MOST_NAMED} more`;
