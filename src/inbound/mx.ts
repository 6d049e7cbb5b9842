/**
 * The role of the MX listener: mail from other servers for mailboxes here. No AUTH, no relaying.
 *
 *   connect.ts (connection, MAIL) ─► rcpt.ts ─► data.ts
 */
import type { Envelope, SmtpRole } from "../smtp/role.ts";
import { type Admitted, type ConnectParts, createAdmission, type Transaction } from "./connect.ts";
import type { Accepted } from "./data.ts";
import { createAdmitRecipient, type RcptParts } from "./rcpt.ts";

/** RFC 5321 §4.5.3.1.8 says at least 100. One database transaction files them all. */
const MOST_RECIPIENTS = 100;

export interface MxParts extends ConnectParts, RcptParts {
  /** See acceptMessage. */
  accept(envelope: Envelope, recipients: readonly Admitted[], content: AsyncIterable<Uint8Array>): Promise<Accepted>;
  /** Tells whether a client's network has delivered wanted mail. */
  isKnown?(ip: string): boolean;
  runtime: RcptParts["runtime"];
}

export function createMxRole(parts: MxParts): SmtpRole {
  const { isTrusted, connect, startMail } = createAdmission(parts);
  const admitRecipient = createAdmitRecipient(parts);
  return {
    // No DSN: to tell strangers that their mail arrived would be backscatter, since reverse-paths are forged.
    mailParameters: ["SIZE", "BODY", "SMTPUTF8"],
    rcptParameters: [],
    requiresAuth: false,
    maxRecipients: () => MOST_RECIPIENTS,
    isTrusted,
    ...(parts.isKnown && { isKnown: parts.isKnown }),
    open({ ip }) {
      const peer = connect(ip);
      let transaction: Transaction = { reversePath: "", admitted: new Map() };
      return {
        startMail(reversePath) {
          transaction = startMail(peer, reversePath);
        },
        admitRecipient: (recipient, declaredSize) => admitRecipient(peer, transaction, recipient, declaredSize),
        async acceptMessage(envelope, content) {
          const recipients = envelope.recipients.flatMap((recipient) => transaction.admitted.get(recipient) ?? []);
          const { emailIds, isReport, replyAt } = await parts.accept(envelope, recipients, content);
          peer.unknownRecipients = 0;
          if (replyAt !== undefined) await waitUntil(parts.runtime, replyAt);
          const [first, ...others] = emailIds;
          if (isReport || first === undefined) return "report taken";
          return others.length === 0 ? `${first} filed` : `${first} and ${others.length} more filed`;
        },
      };
    },
  };
}

const waitUntil = ({ now, setTimer }: MxParts["runtime"], at: number): Promise<void> =>
  new Promise((resolve) => void setTimer(resolve, Math.max(at - now(), 0)));
