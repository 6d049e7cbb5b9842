/** Mail that Alice sent, in her mailbox and in the queue, and its delivery without a network. */
import { asc, eq } from "drizzle-orm";
import { newId } from "../../../src/base/runtime.ts";
import { type EmailAddress, parseAddressList, splitAddress } from "../../../src/message/address.ts";
import { type Claim, claimQueueEntries } from "../../../src/outbound/claims.ts";
import { mergeRecipients } from "../../../src/outbound/guardrails.ts";
import { concludeAttempt } from "../../../src/outbound/outcome.ts";
import { addOutbound, type OutboundMessage } from "../../../src/outbound/queue.ts";
import { listSuppressions } from "../../../src/outbound/suppression.ts";
import { type DeliveryResult, toDeliveryResult } from "../../../src/smtp/delivery-result.ts";
import { messages, outboundMessages, queueEntries } from "../../../src/store/schema.ts";
import type { TestCore } from "./core.ts";
import { createAlice } from "./mailbox-world.ts";

export const HOSTNAME = "mx.example.test";

/** A server's reply to RCPT, or at the end of DATA; `reply` with its code. */
export function said(reply: string, remote = "mx.remote.example", command: "rcpt" | "data" = "rcpt"): DeliveryResult {
  const code = Number(reply.slice(0, 3));
  return toDeliveryResult({ command: code < 300 ? "data" : command, code, text: reply, remote });
}

export const ACCEPTED = said("250 2.0.0 Ok: queued");

/** Address lists as in headers. */
interface Addressed {
  to?: string;
  cc?: string;
  bcc?: string;
  subject?: string;
  messageId?: string;
  /** NOTIFY, of every recipient. */
  notify?: string;
}

let count = 0;

/** `parts`: those of the context that differ. */
export function createSender(parts: (given: TestCore) => Partial<TestCore> = () => ({})) {
  const alice = createAlice();
  const { store, runtime, options, lines, site } = alice.core;
  const core = { ...alice.core, site: { ...site, hostname: HOSTNAME }, ...parts(alice.core) };

  /** Accepts a message of Alice for sending. */
  async function sent({
    to = "",
    cc = "",
    bcc = "",
    subject = "Lunch",
    messageId,
    notify,
  }: Addressed): Promise<OutboundMessage> {
    const number = ++count;
    const id = messageId ?? `<sent-${number}@example.test>`;
    const fields = { to: parseAddressList(to), cc: parseAddressList(cc), bcc: parseAddressList(bcc) };
    const letter = { to: to || "undisclosed-recipients:;", ...(cc ? { cc } : {}), subject, messageId: id };
    const copy = await alice.send(letter, { bcc: fields.bcc });
    const recipients = mergeRecipients(fields).map((recipient) => ({
      ...recipient,
      ...(notify !== undefined && { notify }),
      id: newId(runtime, "que"),
    }));
    const seq = store.transact((tx) =>
      addOutbound(tx, {
        id: copy.messageId,
        workspaceId: alice.workspaceId,
        mailboxId: alice.box,
        mailbox: "alice@example.test",
        threadId: copy.threadId,
        messageId: id,
        subject,
        domain: "example.test",
        returnPath: `bounce+${String(number).padStart(26, "0")}@example.test`,
        acceptedAt: runtime.now(),
        outsideRecipients: recipients.length,
        recipients,
        content: { bytes: new TextEncoder().encode("Subject: Lunch\r\n\r\nHow are you?\r\n") },
      }),
    );
    const row = store.db.select().from(outboundMessages).where(eq(outboundMessages.seq, seq)).get();
    if (row === undefined) throw new Error("the message was not added");
    return row;
  }

  /** Claims the due recipients of the oldest waiting message, all together. */
  const lease = (): Claim | undefined =>
    store.transact((tx) =>
      claimQueueEntries(tx, { now: runtime.now(), leaseUntil: runtime.now() + 60_000, together: () => true }),
    );

  /** Attempts to deliver the due recipients once. `result` gives the result of each. */
  async function attempt(result: (recipient: string) => DeliveryResult): Promise<void> {
    const leased = lease();
    if (leased === undefined) throw new Error("nothing is due");
    const results = leased.entries.map(({ recipient }) => result(recipient));
    const conclude = await concludeAttempt(core, leased, results);
    store.transact((tx) => conclude(tx));
  }

  return {
    ...alice,
    core,
    lines,
    options,
    sent,
    lease,
    attempt,
    /** Sends a message that servers accept for all recipients. */
    async delivered(addressed: Addressed): Promise<OutboundMessage> {
      const message = await sent(addressed);
      await attempt(() => ACCEPTED);
      return message;
    },
    /** The outcome by recipient. */
    states: ({ seq }: OutboundMessage): Record<string, string> =>
      Object.fromEntries(
        store.db
          .select()
          .from(queueEntries)
          .where(eq(queueEntries.messageSeq, seq))
          .orderBy(asc(queueEntries.seq))
          .all()
          .map(({ recipient, state, complainedAt }) => [recipient, complainedAt === null ? state : "complained"]),
      ),
    /** The events after the message was filed. */
    told: () => alice.events().filter(({ event }) => event !== "message.inbound"),
    suppressed: (): [address: string, reason: string][] =>
      listSuppressions(store.db).map(({ address, reason }) => [address, reason]),
    deliveredAt: ({ id }: OutboundMessage): number | null | undefined =>
      store.db.select({ at: messages.deliveredAt }).from(messages).where(eq(messages.id, id)).get()?.at,
    /** The notices in the conversation of a message. */
    notices: ({ threadId }: OutboundMessage) =>
      alice.messages(threadId).filter(({ from }) => from.email.startsWith("postmaster@")),
  };
}

export type Sender = ReturnType<typeof createSender>;

/** All spellings of an address. */
export function formsOf(address: EmailAddress["email"]): string[] {
  const { local, domain } = splitAddress(address);
  return [address, local, domain, `${local}=${domain}`, `${local}%40${domain}`];
}
