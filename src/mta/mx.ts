/** The role of the MX listener: mail from other servers for mailboxes here. No AUTH, no relaying. */
import type { Inbound } from "./inbound.ts";
import type { SmtpRole } from "./role.ts";

/** RFC 5321 §4.5.3.1.8: at least 100. One transaction files them all. */
const MOST_RECIPIENTS = 100;

export function createMxRole(inbound: Inbound): SmtpRole {
  return {
    mailParameters: ["SIZE", "BODY", "SMTPUTF8"],
    requiresAuth: false,
    maxRecipients: () => MOST_RECIPIENTS,
    open: () => ({
      startMail() {},
      admitRecipient: inbound.admit,
      async acceptMessage(envelope, content) {
        const [first, ...others] = await inbound.accept(envelope, content);
        if (first === undefined) return "report taken";
        return others.length === 0 ? `${first} filed` : `${first} and ${others.length} more filed`;
      },
    }),
  };
}
