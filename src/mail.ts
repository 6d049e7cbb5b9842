/** Creates and connects the modules that move mail, in and out, without the listeners. */
import { join } from "node:path";
import { openTlsPolicies } from "./authentication/tls-policy.ts";
import type { Log } from "./base/log.ts";
import { createRoom, mostLargeBytes } from "./base/memory.ts";
import type { Meters } from "./base/metrics.ts";
import type { Runtime } from "./base/runtime.ts";
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
import type { Mailbox } from "./mailbox/mailbox.ts";
import { workspaceOf } from "./mailbox/mailboxes.ts";
import { createDnsCache } from "./net/dns-cache.ts";
import { type Submit, submitMessage } from "./outbound/accept.ts";
import { createApprovals } from "./outbound/approval.ts";
import { deliverHere, recodeContent } from "./outbound/attempt.ts";
import { createHoldNotices } from "./outbound/hold-notices.ts";
import { type NotifyAdmins, notifyAdmins } from "./outbound/notices.ts";
import { concludeAttempt } from "./outbound/outcome.ts";
import { createRelay } from "./outbound/relay.ts";
import { createRefusalLimit, createTraceUpkeep } from "./outbound/trace-log.ts";
import { createTransport } from "./outbound/transport.ts";
import { openSpool } from "./smtp/spool.ts";
import { isReserveSpent } from "./store/reserve.ts";
import type { Options } from "./store/settings.ts";
import type { Store } from "./store/store.ts";
import { createParserPool } from "./workers/parser-pool.ts";
import type { StartParser } from "./workers/parser-process.ts";

interface MailFlowParts {
  /** The data folder. */
  folder: string;
  hostname: string;
  /** The public origin. */
  baseUrl: string;
  store: Store;
  mailbox: Mailbox;
  options: Options;
  runtime: Runtime;
  log: Log;
  meters: Meters;
  startParser?: StartParser | undefined;
  /** Holds mail to the outside instead of sending it. */
  hold: boolean;
  /** Has a domain verified: see resolveRecipient in inbound/rcpt.ts. */
  verifyOnArrival(domain: string): Promise<void>;
  /** Runs a job now, because there may be new work for it. */
  wake(job: string): void;
}

export function createMailFlow({ folder, startParser, wake, baseUrl, ...parts }: MailFlowParts) {
  const { store, mailbox, options, runtime, log } = parts;
  const names = createDnsCache(runtime);
  const blobFolder = join(folder, "blobs");
  const parser = createParserPool({
    blobFolder,
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
  const transport = createTransport({ ...parts, tlsPolicies: openTlsPolicies(parts) });
  const wakeRelay = (): void => wake(relay.job.name);
  const relay = createRelay({
    ...parts,
    transport,
    deliverHere: (claim, content) => deliverHere({ db: store.db, mailbox, parser, runtime }, claim, content),
    recode: (...recoding) => recodeContent({ db: store.db, parser, runtime }, ...recoding),
    conclude: (claim, results) => concludeAttempt(parts, claim, results),
    rooms: { here: room, away: createRoom(2 * mostLargeBytes()) },
    wake: wakeRelay,
  });
  const submit: Submit = async (...submission) => {
    const sent = await submitMessage({ ...parts, transport, parser }, ...submission);
    wakeRelay();
    return sent;
  };
  const greylist = createGreylist({ store, runtime });
  const blocklists = createBlocklists({ names, runtime, log });
  const approvals = createApprovals({ ...parts, transport, parser, wake, wakeRelay });
  const sending = createSending({ ...parts, transport, parser, submit, spool, wake, approvals });
  const automatic = createAutomatic({ ...parts, transport, parser, onQueued: wakeRelay, wake });
  const invitations = createInvitations({ ...parts, sending, parser });
  const known = createKnownNetworks({ store, runtime });
  const notify: NotifyAdmins = async (...notice) => {
    await notifyAdmins({ ...parts, parser }, ...notice);
    wakeRelay();
  };
  const holdNotices = createHoldNotices({ store, notify, page: `${baseUrl}/approve` });
  const jobs: readonly Job[] = [
    relay.job,
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
      accept: (...message) => acceptMessage({ ...parts, parser, spool, known, isTraced }, ...message),
      isKnown: known.isKnown,
    }),
    submit,
    sending,
    invitations,
    notifyAdmins: notify,
    spool,
    relay,
    jobs,
    /** Prepares mail in parsers. */
    parser,
    /** Reads stored HTML in a parser. */
    read: parser.read,
    composeStored: parser.composeStored,
    /** Extracts the text of documents in a parser. */
    readDocument: parser.readDocument,
    /** Ends the parsers. Called after everything that takes in mail has stopped. */
    stopParsing: () => parser.stop(),
  };
}
