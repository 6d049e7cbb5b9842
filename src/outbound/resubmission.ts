/**
 * The same message handed in again: by a mail app that never heard our 250 (RFC 1047), or that splits a long list of
 * recipients. Nobody gets it twice.
 */
import { and, eq, gt, sql } from "drizzle-orm";
import { normalizeAddress } from "../message/address.ts";
import { fingerprintOf } from "../message/fingerprint.ts";
import { messages, outboundMessages, queueEntries } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import type { Recipient } from "./recipient.ts";

export interface HandedIn {
  mailboxId: string;
  /** Its own, with angle brackets. */
  messageId: string;
  /** As it came; trace fields do not count. */
  bytes: Uint8Array;
  recipients: readonly Recipient[];
}

/** Apps try again within minutes; what is sent again on purpose gets a Message-ID of its own. */
const REMEMBERED_MS = 3_600_000;

const acceptedEntries = prepared((db) =>
  db
    .select({ emailId: outboundMessages.id, fingerprint: messages.fingerprint, recipient: queueEntries.recipient })
    .from(outboundMessages)
    .innerJoin(messages, eq(messages.id, outboundMessages.id))
    .innerJoin(queueEntries, eq(queueEntries.messageSeq, outboundMessages.seq))
    .where(
      and(
        eq(outboundMessages.messageId, sql.placeholder("messageId")),
        eq(outboundMessages.mailboxId, sql.placeholder("mailboxId")),
        gt(outboundMessages.acceptedAt, sql.placeholder("since")),
      ),
    )
    .prepare(),
);

/** One of each: what is under way is known to nobody else. */
export function createResubmission(db: Db, now: () => number) {
  const underWay = new Map<string, Promise<string>>();

  async function acceptLeft(
    { mailboxId, messageId, bytes, recipients }: HandedIn,
    accept: (recipients: readonly Recipient[]) => Promise<string>,
  ): Promise<string> {
    const entries = acceptedEntries(db).all({ mailboxId, messageId, since: now() - REMEMBERED_MS });
    const fingerprint = entries.length === 0 ? "" : fingerprintOf(bytes);
    const same = entries.filter((entry) => entry.fingerprint === fingerprint);
    const accepted = new Set(same.map(({ recipient }) => normalizeAddress(recipient)));
    const left = recipients.filter(({ email }) => !accepted.has(normalizeAddress(email)));
    const [first] = same;
    return first && left.length === 0 ? first.emailId : accept(left);
  }

  /**
   * Lets `accept` take the message for those recipients that it was not accepted for within the last hour, after whatever
   * is being done about the same message on another connection. Resolves with its emailId, or the earlier one.
   */
  return async function acceptOnce(
    message: HandedIn,
    accept: (recipients: readonly Recipient[]) => Promise<string>,
  ): Promise<string> {
    const key = `${message.mailboxId} ${message.messageId}`;
    const before = underWay.get(key)?.catch(() => {}) ?? Promise.resolve();
    const run = before.then(() => acceptLeft(message, accept));
    underWay.set(key, run);
    try {
      return await run;
    } finally {
      if (underWay.get(key) === run) underWay.delete(key);
    }
  };
}
