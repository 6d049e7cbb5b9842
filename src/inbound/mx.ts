/** The role of the MX listener: mail from other servers for mailboxes here. No AUTH, no relaying. */

import type { SmtpRole } from "../smtp/role.ts";
import type { Door } from "./admission.ts";
import type { Inbound } from "./inbound.ts";

/** RFC 5321 §4.5.3.1.8: at least 100. One transaction files them all. */
const MOST_RECIPIENTS = 100;

export function createMxRole(inbound: Inbound, door: Door): SmtpRole {
  return {
    mailParameters: ["SIZE", "BODY", "SMTPUTF8"],
    requiresAuth: false,
    maxRecipients: () => MOST_RECIPIENTS,
    isTrusted: door.isTrusted,
    open({ ip }) {
      const visit = door.open(ip);
      return {
        startMail: visit.startMail,
        admitRecipient: (recipient, declaredSize) =>
          visit.admitRecipient(recipient, () => inbound.admit(recipient, declaredSize)),
        async acceptMessage(envelope, content) {
          const { emailIds, isReport } = await inbound.accept(envelope, content);
          visit.accepted();
          const [first, ...others] = emailIds;
          if (isReport || first === undefined) return "report taken";
          return others.length === 0 ? `${first} filed` : `${first} and ${others.length} more filed`;
        },
      };
    },
  };
}
