/** The way of the mail, in and out, without its listeners: the parts of this folder, made once and joined. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Log } from "../log.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { ReadHtml } from "../message/reading.ts";
import type { Meters } from "../metrics.ts";
import type { Runtime } from "../runtime.ts";
import type { Job } from "../scheduler.ts";
import type { Options } from "../store/options.ts";
import type { Store } from "../store/store.ts";
import { createAdminNotices, type NotifyAdmins } from "./admin-notice.ts";
import { createDnsCache } from "./dns-cache.ts";
import { createBlocklists } from "./dnsbl.ts";
import { createDoor } from "./door.ts";
import { createFeedback } from "./feedback.ts";
import { createGreylist } from "./greylist.ts";
import { createInbound } from "./inbound.ts";
import { createLocalDelivery } from "./local.ts";
import { createMxRole } from "./mx.ts";
import { createOutcomes } from "./outcome.ts";
import { createParserPool, type StartWorker } from "./parser-pool.ts";
import { openProtection } from "./protection.ts";
import { createRelay, type Relay } from "./relay.ts";
import type { SmtpRole } from "./role.ts";
import { createSending, type Sending } from "./sending.ts";
import { openSpool, type Spool } from "./spool.ts";
import { createSubmit, type Submit } from "./submit.ts";
import { createTraceUpkeep } from "./trace-log.ts";
import { createTransport } from "./transport.ts";

const MOST_PARSERS = 4;

export interface MtaParts {
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
  /** Mail to the outside is held rather than sent. */
  hold: boolean;
  /** See InboundParts. */
  verifyOnArrival(domain: string): Promise<void>;
  /** The queue has something new, or may have: its job is to look at once. */
  wake(job: string): void;
}

export interface Mta {
  /** What mail of other servers meets. */
  mxRole: SmtpRole;
  submit: Submit;
  sending: Sending;
  notifyAdmins: NotifyAdmins;
  spool: Spool;
  relay: Relay;
  jobs: readonly Job[];
  /** Reads stored HTML in a worker. */
  read: ReadHtml;
  /** Ends what parses; after everything that takes in mail. */
  stopParsing(): void;
}

export function createMta({ folder, startWorker, wake, ...parts }: MtaParts): Mta {
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
  const inbound = createInbound({ ...parts, parser, spool, feedback });
  const greylist = createGreylist({ store, runtime });
  const blocklists = createBlocklists({ names, runtime, log });
  const notifyAdmins = createAdminNotices({ store, mailbox, parser, runtime, hostname, log });
  const sending = createSending({ ...parts, local, transport, parser, submit, spool, wake });
  return {
    mxRole: createMxRole(inbound, createDoor({ options, blocklists, greylist, runtime })),
    submit,
    sending: sending,
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
