/**
 * The role of the MX listener: mail from other servers for mailboxes here, one file a verb. No AUTH, no relaying.
 *
 *   connect.ts ─► mail.ts ─► rcpt.ts ─► data.ts
 */
import type { SmtpRole } from "../smtp/role.ts";
import { type ConnectParts, createConnect } from "./connect.ts";
import type { Accept } from "./data.ts";
import { createStartMail, type Transaction } from "./mail.ts";
import { createAdmitRecipient, type RcptParts } from "./rcpt.ts";

/** RFC 5321 §4.5.3.1.8: at least 100. One transaction files them all. */
const MOST_RECIPIENTS = 100;

export interface MxParts extends ConnectParts, RcptParts {
  accept: Accept;
  runtime: RcptParts["runtime"];
}

export function createMxRole(parts: MxParts): SmtpRole {
  const { isTrusted, connect } = createConnect(parts);
  const startMail = createStartMail(parts);
  const admitRecipient = createAdmitRecipient(parts);
  return {
    mailParameters: ["SIZE", "BODY", "SMTPUTF8"],
    requiresAuth: false,
    maxRecipients: () => MOST_RECIPIENTS,
    isTrusted,
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
          const { emailIds, isReport } = await parts.accept(envelope, recipients, content);
          peer.unknownRecipients = 0;
          const [first, ...others] = emailIds;
          if (isReport || first === undefined) return "report taken";
          return others.length === 0 ? `${first} filed` : `${first} and ${others.length} more filed`;
        },
      };
    },
  };
}
