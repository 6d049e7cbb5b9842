/** Creates and connects the modules that move mail, in and out, without the listeners. */
import { join } from "node:path";
import { openTlsPolicies } from "./authentication/tls-policy.ts";
import { createMemoryRoom, largeMessageMemoryLimit } from "./base/memory.ts";
import type { Job } from "./base/scheduler.ts";
import { dueDraftSending } from "./compose/draft-sending.ts";
import { sendAutomaticMail } from "./compose/send-automatic.ts";
import { createGreylist } from "./inbound/greylist.ts";
import { forgetNetworks } from "./inbound/known.ts";
import { createMxRole } from "./inbound/mx.ts";
import type { VerifyOnArrival } from "./inbound/rcpt.ts";
import type { MailCore } from "./mailbox/state/mail-core.ts";
import { findOwnerWorkspaceId } from "./mailbox/state/mailboxes.ts";
import { createDnsCache } from "./net/dns-cache.ts";
import { processHeldMessages } from "./outbound/approval.ts";
import { holdNotices } from "./outbound/hold-notices.ts";
import { createRelay } from "./outbound/relay.ts";
import type { SendCore } from "./outbound/send-core.ts";
import { deleteOldTraceSteps } from "./outbound/trace-log.ts";
import { createTransport } from "./outbound/transport.ts";
import { openSpool } from "./smtp/spool.ts";
import { createParserPool } from "./workers/parser-pool.ts";
import type { StartParser } from "./workers/parser-process.ts";

/** Most waiting recipients that the queue accepts. */
const LARGEST_QUEUE = 1_000_000;

interface MailOptions {
  startParser?: StartParser | undefined;
  /** Holds mail to the outside instead of sending it. */
  hold: boolean;
  verifyOnArrival: VerifyOnArrival;
}

export function openMailServices(opened: MailCore, { startParser, hold, verifyOnArrival }: MailOptions) {
  const { store, options, runtime, log, site } = opened;
  const { folder, hostname } = site;
  const names = createDnsCache(runtime);
  const parser = createParserPool({
    blobFolder: join(folder, "blobs"),
    remote: store.remote,
    names,
    runtime,
    log,
    findOwnerWorkspaceId: (owner) => findOwnerWorkspaceId(store.db, owner),
    ...(startParser && { start: startParser }),
  });
  const room = createMemoryRoom();
  const spool = openSpool(join(folder, "spool"), room);
  const tlsPolicies = openTlsPolicies(opened);
  const transport = createTransport({ runtime, hostname, options, tlsPolicies, log });
  const core: SendCore = { ...opened, parser, transport, spool, largestQueue: LARGEST_QUEUE };
  const relay = createRelay(core, {
    hold,
    rooms: { here: room, away: createMemoryRoom(2 * largeMessageMemoryLimit()) },
  });
  const greylist = createGreylist(core);
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
    dueDraftSending(core),
    sendAutomaticMail(core),
    processHeldMessages(core),
    holdNotices(core),
    greylist.job,
    forgetNetworks(core),
    deleteOldTraceSteps(core),
  ];
  return {
    /** The role of the MX listener. */
    mxRole: createMxRole(core, { names, greylist, verifyOnArrival }),
    core,
    relay,
    jobs,
  };
}
