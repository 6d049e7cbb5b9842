/** A data folder in memory, opened as commands open theirs: everything but a running server. */
import { join } from "node:path";
import { openTlsPolicies } from "../../../src/authentication/tls-policy.ts";
import { formatTraceFields } from "../../../src/authentication/trace-fields.ts";
import { createLog } from "../../../src/base/log.ts";
import type { Runtime } from "../../../src/base/runtime.ts";
import { readConfig } from "../../../src/config.ts";
import { type Filed, type Filing, fileMessage } from "../../../src/mailbox/filing/filing.ts";
import { createLocalComposers } from "../../../src/mailbox/filing/keep-composed.ts";
import { NO_TOP, type TopLines } from "../../../src/mailbox/filing/keep-octets.ts";
import { prepareMessage } from "../../../src/mailbox/filing/prepare.ts";
import { makeOctetsLater } from "../../../src/mailbox/reading/missing-octets.ts";
import type { MailCore } from "../../../src/mailbox/state/mail-core.ts";
import { findOwnerWorkspaceId } from "../../../src/mailbox/state/mailboxes.ts";
import { readInThisThread } from "../../../src/mailbox/state/readers.ts";
import { formatAddress, headerField } from "../../../src/message/compose.ts";
import { readHtmlInThisThread } from "../../../src/message/reading.ts";
import { createDnsCache } from "../../../src/net/dns-cache.ts";
import { type Opened, type OpenOptions, open } from "../../../src/open.ts";
import type { SendCore } from "../../../src/outbound/send-core.ts";
import { createTransport } from "../../../src/outbound/transport.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { openSpool } from "../../../src/smtp/spool.ts";
import { emptyDatabase } from "../../../src/store/migrate.ts";
import { openOptions } from "../../../src/store/settings.ts";
import type { Store } from "../../../src/store/store.ts";
import { createParserPool } from "../../../src/workers/parser-pool.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { type Letter, letter } from "../mail/mail.ts";
import { type FakeRuntime, fakeRuntime } from "../runtime.ts";
import { shareParser } from "./parser.ts";

export interface TestCore extends MailCore {
  readonly runtime: FakeRuntime;
  /** Log lines so far. */
  readonly lines: Record<string, unknown>[];
}

export interface TestOpened extends Opened {
  readonly core: TestCore;
}

/** `env`: variables of the environment; by default, listeners on free loopback ports. `world`: parts of the runtime that differ. */
export function openInMemory(
  env: Record<string, string> = {},
  { file = emptyDatabase(), doctor, ...world }: Partial<Runtime> & Pick<OpenOptions, "file" | "doctor"> = {},
): TestOpened {
  const runtime = fakeRuntime(world);
  const lines: Record<string, unknown>[] = [];
  const config = readConfig({
    MAILROOM_DATA: temporaryFolder(),
    MAILROOM_HTTP: "127.0.0.1:0",
    MAILROOM_MX: "127.0.0.1:0",
    MAILROOM_SUBMISSION: "127.0.0.1:0",
    MAILROOM_SUBMISSIONS: "127.0.0.1:0",
    ...env,
  });
  const log = createLog(config.log, runtime.now, (line) => lines.push(JSON.parse(line)));
  const opened = open(config, runtime, log, { file, ...(doctor && { doctor }) });
  return { ...opened, core: { ...opened.core, runtime, lines } };
}

/** The context alone, over an empty database. */
export const testCore = (world: Partial<Runtime> = {}): TestCore => openInMemory({}, world).core;

/** The context over a store that is there. */
export function coreOver(store: Store, runtime = fakeRuntime()): TestCore {
  const { db, blobs } = store;
  const parser = { read: readHtmlInThisThread, ...createLocalComposers(blobs) };
  const parts = { db, blobs, now: runtime.now, store, options: openOptions(store), runtime };
  const engine = createFts5Engine(store);
  return { ...testCore(), ...parts, engine, readers: readInThisThread({ ...parts, engine }), parser };
}

/** How mail is filed. `withoutOctets`: as versions before 0064_message_octets.sql filed it. */
export type LetterFiling = Omit<Filing, "message" | "now"> & { now?: number; withoutOctets?: boolean };

/** Files mail now, without SMTP, in the order of the calls. Lines of a string may end in LF. */
export async function fileLetter(
  core: MailCore,
  mail: Letter | string,
  { withoutOctets = false, ...filing }: LetterFiling,
): Promise<Filed> {
  const text = typeof mail === "string" ? mail : letter(mail);
  const bytes = new TextEncoder().encode(text.replaceAll(/\r?\n/g, "\r\n"));
  const { octets, ...message } = await prepareMessage(bytes, core.blobs, { top: topLines(core, filing) });
  const prepared = { ...message, ...(octets && !withoutOctets && { octets }) };
  return core.store.enqueue((tx) => {
    const filed = fileMessage(core, tx, { message: prepared, now: core.now(), ...filing });
    if (withoutOctets) makeOctetsLater(tx, [filed.seq]);
    return filed;
  });
}

/** Makes the lines that a parser puts above mail that arrives, or is sent with Bcc. */
function topLines({ now, site }: MailCore, { kind, auth, bcc = [], receivedOn }: LetterFiling): TopLines {
  if (kind === "sent" && bcc.length > 0) {
    const lines = Buffer.from(`${headerField("Bcc", bcc.map(formatAddress).join(", "))}\r\n`);
    return { lines, bcc: lines.byteLength };
  }
  if (kind !== undefined && kind !== "received") return NO_TOP;
  const { hostname } = site;
  const session = { ip: "192.0.2.1", helo: "mx.remote.example", reversePath: "ben@remote.example", trace: "trace" };
  const context = { ...session, hostname, trustedForwarders: [], now: now(), recipient: receivedOn };
  const verdicts = Object.entries(auth ?? {}).map(([method, verdict]) => `${method}=${verdict}`);
  const results = [hostname, ...(verdicts.length === 0 ? ["none"] : verdicts)].join("; ");
  return { lines: Buffer.from(formatTraceFields(context, results)) };
}

/** The context of sending: parsers that the tests of a file share, and the real transport. */
export function sendCore(core: TestCore): SendCore & TestCore {
  const { store, options, runtime, log, site } = core;
  const parser = createParserPool({
    blobFolder: join(site.folder, "blobs"),
    remote: store.remote,
    names: createDnsCache(runtime),
    runtime,
    log,
    findOwnerWorkspaceId: (owner) => findOwnerWorkspaceId(store.db, owner),
    start: shareParser,
  });
  atEndOfFile(() => parser.stop());
  const tlsPolicies = openTlsPolicies(core);
  const transport = createTransport({ runtime, hostname: site.hostname, options, tlsPolicies, log });
  return { ...core, parser, transport, spool: openSpool(join(site.folder, "spool")), largestQueue: 1_000_000 };
}
