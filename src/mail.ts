/** The way of the mail, in and out, without its listeners: creates and connects the modules that move mail. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Log } from "./base/log.ts";
import type { Meters } from "./base/metrics.ts";
import type { Runtime } from "./base/runtime.ts";
import type { Job } from "./base/scheduler.ts";
import { createSending, type Sending } from "./compose/send.ts";
import { createAccept } from "./inbound/data.ts";
import { createBlocklists } from "./inbound/dnsbl.ts";
import { createFeedback } from "./inbound/feedback.ts";
import { createGreylist } from "./inbound/greylist.ts";
import { createMxRole } from "./inbound/mx.ts";
import { createResolve } from "./inbound/rcpt.ts";
import type { Mailbox } from "./mailbox/mailbox.ts";
import type { ReadHtml } from "./message/reading.ts";
import { createDnsCache } from "./net/dns-cache.ts";
import { createSubmit, type Submit } from "./outbound/accept.ts";
import { createLocalDelivery } from "./outbound/local.ts";
import { createAdminNotices, type NotifyAdmins } from "./outbound/notices.ts";
import { createOutcomes } from "./outbound/outcome.ts";
import { openProtection } from "./outbound/protection.ts";
import { createRelay, type Relay } from "./outbound/relay.ts";
import { createTraceUpkeep } from "./outbound/trace-log.ts";
import { createTransport } from "./outbound/transport.ts";
import type { SmtpRole } from "./smtp/role.ts";
import { openSpool, type Spool } from "./smtp/spool.ts";
import type { Options } from "./store/settings.ts";
import type { Store } from "./store/store.ts";
import { createParserPool, type StartWorker } from "./workers/parser-pool.ts";

const MOST_PARSERS = 4;

export interface MailFlowParts {
  /** The data folder. */
  folder: string;
  hostname: string;
  store: Store;
  mailbox: Mailbox;
  options: Options;
  runtime: Runtime;
  log: Log;
  meters: Meters;
  startWorker?: StartWorker | undefined;
  /** Holds mail to the outside instead of sending it. */
  hold: boolean;
  /** See ResolveParts. */
  verifyOnArrival(domain: string): Promise<void>;
  /** Runs a job now, because there may be new work for it. */
  wake(job: string): void;
}

export interface MailFlow {
  /** The role of the MX listener. */
  mxRole: SmtpRole;
  submit: Submit;
  sending: Sending;
  notifyAdmins: NotifyAdmins;
  spool: Spool;
  relay: Relay;
  jobs: readonly Job[];
  /** Reads stored HTML in a worker. */
  read: ReadHtml;
  /** Ends the parser workers. Called after everything that takes in mail has stopped. */
  stopParsing(): void;
}

export function createMailFlow({ folder, startWorker, wake, ...parts }: MailFlowParts): MailFlow {
  const { store, mailbox, options, runtime, hostname, log } = parts;
  const workers = Math.min(MOST_PARSERS, Math.max(1, availableParallelism() - 1));
  const names = createDnsCache(runtime);
  const blobFolder = join(folder, "blobs");
  const parser = createParserPool({ blobFolder, names, runtime, log, workers, ...(startWorker && { startWorker }) });
  const spool = openSpool(join(folder, "spool"));
  const transport = createTransport({ ...parts, protection: openProtection(parts) });
  const local = createLocalDelivery({ db: store.db, mailbox, parser, runtime });
  const outcomes = createOutcomes({ store, mailbox, options, runtime, hostname, log });
  const relayWoken = (): void => wake(relay.job.name);
  const relay = createRelay({ ...parts, transport, local, outcomes, wake: relayWoken });
  const accept = createSubmit({ ...parts, local, transport, parser });
  const submit: Submit = async (submission, record) => {
    const sent = await accept(submission, record);
    relayWoken();
    return sent;
  };
  const feedback = createFeedback({ db: store.db, outcomes, local, runtime });
  const resolve = createResolve({ ...parts, feedback });
  const acceptInbound = createAccept({ ...parts, parser, spool, feedback });
  const greylist = createGreylist({ store, runtime });
  const blocklists = createBlocklists({ names, runtime, log });
  const notifyAdmins = createAdminNotices({ store, mailbox, parser, runtime, hostname, log });
  const sending = createSending({ ...parts, local, transport, parser, submit, spool, wake });
  return {
    mxRole: createMxRole({ options, blocklists, greylist, runtime, resolve, accept: acceptInbound }),
    submit,
    sending,
    async notifyAdmins(...notice) {
      await notifyAdmins(...notice);
      relayWoken();
    },
    spool,
    relay,
    jobs: [relay.job, sending.job, greylist.job, createTraceUpkeep(store, options)],
    read: parser.read,
    stopParsing: () => parser.stop(),
  };
}
