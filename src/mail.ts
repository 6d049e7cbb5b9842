/** Creates and connects the modules that move mail, in and out, without the listeners. */
import { join } from "node:path";
import { openTlsPolicies } from "./authentication/tls-policy.ts";
import { createRoom, mostLargeBytes } from "./base/memory.ts";
import type { Job } from "./base/scheduler.ts";
import { createAutomatic } from "./compose/automatic.ts";
import { createInvitations } from "./compose/invitations.ts";
import { createSending } from "./compose/send.ts";
import { acceptMessage } from "./inbound/data.ts";
import { createBlocklists } from "./inbound/dnsbl.ts";
import { createGreylist } from "./inbound/greylist.ts";
import { createKnownNetworks } from "./inbound/known.ts";
import { createMxRole } from "./inbound/mx.ts";
import { resolveRecipient } from "./inbound/rcpt.ts";
import type { MailCore } from "./mailbox/core.ts";
import { createMailbox } from "./mailbox/mailbox.ts";
import { workspaceOf } from "./mailbox/mailboxes.ts";
import { createDnsCache } from "./net/dns-cache.ts";
import { type Submit, submitMessage } from "./outbound/accept.ts";
import { createApprovals } from "./outbound/approval.ts";
import { deliverHere, recodeContent } from "./outbound/attempt.ts";
import type { SendCore } from "./outbound/core.ts";
import { createHoldNotices } from "./outbound/hold-notices.ts";
import { type NotifyAdmins, notifyAdmins } from "./outbound/notices.ts";
import { concludeAttempt } from "./outbound/outcome.ts";
import { createRelay } from "./outbound/relay.ts";
import { createRefusalLimit, createTraceUpkeep } from "./outbound/trace-log.ts";
import { createTransport } from "./outbound/transport.ts";
import { openSpool } from "./smtp/spool.ts";
import { isReserveSpent } from "./store/reserve.ts";
import { createParserPool } from "./workers/parser-pool.ts";
import type { StartParser } from "./workers/parser-process.ts";

interface MailOptions {
  startParser?: StartParser | undefined;
  /** Holds mail to the outside instead of sending it. */
  hold: boolean;
  /** Has a domain verified: see resolveRecipient in inbound/rcpt.ts. */
  verifyOnArrival(domain: string): Promise<void>;
}

export function openMail(opened: MailCore, { startParser, hold, verifyOnArrival }: MailOptions) {
  const { store, options, runtime, log, wake, site } = opened;
  const { folder, hostname, baseUrl } = site;
  const names = createDnsCache(runtime);
  const parser = createParserPool({
    blobFolder: join(folder, "blobs"),
    remote: store.remote,
    names,
    runtime,
    log,
    workspaceOf: (owner) => workspaceOf(store.db, owner),
    ...(startParser && { start: startParser }),
  });
  const room = createRoom();
  const spool = openSpool(join(folder, "spool"), room);
  const isTraced = createRefusalLimit(runtime);
  const tlsPolicies = openTlsPolicies({ store, options, runtime, log });
  const transport = createTransport({ runtime, hostname, options, tlsPolicies, log });
  const core: SendCore = { ...opened, parser, transport, spool };
  const mailbox = createMailbox(core);
  const parts = { ...core, mailbox, hold, hostname, baseUrl, verifyOnArrival };
  const wakeRelay = (): void => wake(relay.job.name);
  const relay = createRelay({
    ...parts,
    deliverHere: (claim, content) => deliverHere({ db: store.db, mailbox, parser, runtime }, claim, content),
    recode: (...recoding) => recodeContent({ db: store.db, parser, runtime }, ...recoding),
    conclude: (claim, results) => concludeAttempt(parts, claim, results),
    rooms: { here: room, away: createRoom(2 * mostLargeBytes()) },
    wake: wakeRelay,
  });
  const submit: Submit = async (...submission) => {
    const sent = await submitMessage(parts, ...submission);
    wakeRelay();
    return sent;
  };
  const greylist = createGreylist({ store, runtime });
  const blocklists = createBlocklists({ names, runtime, log });
  const approvals = createApprovals({ ...parts, wakeRelay });
  const sending = createSending({ ...parts, submit, approvals });
  const automatic = createAutomatic({ ...parts, onQueued: wakeRelay });
  const invitations = createInvitations({ ...parts, sending });
  const known = createKnownNetworks({ store, runtime });
  const notify: NotifyAdmins = async (...notice) => {
    await notifyAdmins(parts, ...notice);
    wakeRelay();
  };
  const holdNotices = createHoldNotices({ store, notify, page: `${baseUrl}/approve` });
  const jobs: readonly Job[] = [
    relay.job,
    // Woken when an administrator asks for attempts now (admin/outbound.ts).
    {
      name: "end-rests",
      runDue() {
        relay.endRests();
        return null;
      },
    },
    sending.job,
    automatic.job,
    approvals.job,
    holdNotices,
    greylist.job,
    known.job,
    createTraceUpkeep(store, options),
  ];
  return {
    /** The role of the MX listener. */
    mxRole: createMxRole({
      options,
      blocklists,
      greylist,
      runtime,
      resolve: (...recipient) => resolveRecipient({ ...parts, isFull: () => isReserveSpent(folder) }, ...recipient),
      accept: (...message) => acceptMessage({ ...parts, known, isTraced }, ...message),
      isKnown: known.isKnown,
    }),
    core,
    mailbox,
    submit,
    sending,
    invitations,
    notifyAdmins: notify,
    relay,
    jobs,
  };
}
