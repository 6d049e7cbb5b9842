/**
 * The role of the MX listener: mail from other servers for mailboxes here. No AUTH, no relaying.
 *
 *   connect.ts (connection, MAIL) ─► rcpt.ts ─► data.ts
 */
import type { Runtime } from "../base/runtime.ts";
import type { DnsCache } from "../net/dns-cache.ts";
import type { SmtpRole } from "../smtp/role.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { createMxAdmission, type Transaction } from "./connect.ts";
import { acceptMessage } from "./data.ts";
import type { Greylist } from "./greylist.ts";
import { isKnownNetwork } from "./known.ts";
import { createAdmitRecipient, resolveRecipient, type VerifyOnArrival } from "./rcpt.ts";

/** RFC 5321 §4.5.3.1.8 says at least 100. One database transaction files them all. */
const MOST_RECIPIENTS = 100;

export interface MxParts {
  names: DnsCache;
  greylist: Greylist;
  verifyOnArrival: VerifyOnArrival;
  /** These two differ in tests of the listener alone. */
  resolve?: typeof resolveRecipient;
  accept?: typeof acceptMessage;
}

export function createMxRole(
  core: ParsingCore,
  { names, greylist, verifyOnArrival, resolve = resolveRecipient, accept = acceptMessage }: MxParts,
): SmtpRole {
  const { isTrusted, connect, startMail } = createMxAdmission(core, names);
  const admitRecipient = createAdmitRecipient(core, greylist, (address, declaredSize) =>
    resolve(core, verifyOnArrival, address, declaredSize),
  );
  return {
    // No DSN: to tell strangers that their mail arrived would be backscatter, since reverse-paths are forged.
    mailParameters: ["SIZE", "BODY", "SMTPUTF8"],
    rcptParameters: [],
    requiresAuth: false,
    maxRecipients: () => MOST_RECIPIENTS,
    isTrusted,
    isKnown: (ip) => isKnownNetwork(core, ip),
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
          const { emailIds, isReport, replyAt } = await accept(core, envelope, recipients, content);
          peer.unknownRecipients = 0;
          if (replyAt !== undefined) await waitUntil(core.runtime, replyAt);
          const [first, ...others] = emailIds;
          if (isReport || first === undefined) return "report taken";
          return others.length === 0 ? `${first} filed` : `${first} and ${others.length} more filed`;
        },
      };
    },
  };
}

const waitUntil = ({ now, setTimer }: Runtime, at: number): Promise<void> =>
  new Promise((resolve) => void setTimer(resolve, Math.max(at - now(), 0)));
