/** An MX listener on a real socket, before a fake that records mail, or before a whole mailbox. */
import { join } from "node:path";
import { createLog } from "../../../src/base/log.ts";
import { type AcceptResult, acceptMessage } from "../../../src/inbound/data.ts";
import { createGreylist } from "../../../src/inbound/greylist.ts";
import { createMxRole, type MxParts } from "../../../src/inbound/mx.ts";
import { resolveRecipient } from "../../../src/inbound/rcpt.ts";
import { createDnsCache } from "../../../src/net/dns-cache.ts";
import type { Envelope, SmtpRole } from "../../../src/smtp/role.ts";
import type { Limits } from "../../../src/smtp/server-connection.ts";
import { createSmtpListener, type SmtpListener } from "../../../src/smtp/smtp-listener.ts";
import { openSpool } from "../../../src/smtp/spool.ts";
import * as schema from "../../../src/store/schema.ts";
import { type Options, SETTINGS } from "../../../src/store/settings.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Certificates, KeyPair } from "../../../src/tls/certificates.ts";
import { createParserPool, type ParserPool } from "../../../src/workers/parser-pool.ts";
import type { ParsingCore } from "../../../src/workers/parsing-core.ts";
import type { Address } from "../clients/smtp-client.ts";
import { storeInFolder } from "../data/database.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { makePair } from "../peers/remote-mx.ts";
import { type FakeRuntime, fakeRuntime, START } from "../runtime.ts";
import { coreOver, sendCore, testCore } from "./core.ts";
import { shareParser } from "./parser.ts";

type LogLine = Record<string, unknown> & { level: string; message: string };

const cleanups: (() => unknown)[] = [];
atEndOfFile(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

export function testLog(runtime: FakeRuntime) {
  const lines: LogLine[] = [];
  return { lines, log: createLog("debug", runtime.now, (line) => lines.push(JSON.parse(line))) };
}

// The first test that needs the pair makes it. If the module made it, its folder could be removed, at the end of the file that
// loaded the module, before the pair is written.
let pair: Promise<KeyPair> | undefined;

/** Certificates that tests replace. */
export async function replaceableCertificates() {
  pair ??= makePair("mx.example.test");
  let current = await pair;
  let listener: (pair: KeyPair) => void = () => {};
  const certificates: Pick<Certificates, "current" | "choose" | "onChange"> = {
    current: () => current,
    choose: (_name, done) => done(null),
    onChange(given) {
      listener = given;
      return () => {};
    },
  };
  return {
    certificates,
    replace(next: KeyPair) {
      current = next;
      listener(next);
    },
  };
}

export interface Rig {
  runtime: FakeRuntime;
  lines: LogLine[];
  listener: SmtpListener;
  address: Address;
}

export interface ListenerOptions {
  /** Settings of the MX listener that differ from their defaults. */
  settings?: Partial<Record<`mx.${string}`, unknown>>;
  implicitTls?: boolean;
  limits?: Partial<Limits>;
  maxBytes?: () => number;
  runtime?: FakeRuntime;
  certificates?: Pick<Certificates, "current" | "choose" | "onChange">;
  logged?: ReturnType<typeof testLog>;
}

/** Starts a listener in a role. */
export async function listenAs(role: SmtpRole, options: ListenerOptions = {}): Promise<Rig> {
  const runtime = options.runtime ?? fakeRuntime();
  const { log, lines } = options.logged ?? testLog(runtime);
  const get = (() => options.maxBytes?.() ?? 1_000_000) as unknown as Options["get"];
  const base = testCore(runtime);
  const site = { ...base.site, hostname: "mx.example.test" };
  const core = { ...base, options: { ...base.options, get }, log, site };
  const listener = createSmtpListener(core, {
    listen: { host: "127.0.0.1", port: 0 },
    certificates: options.certificates ?? (await replaceableCertificates()).certificates,
    role,
    implicitTls: options.implicitTls ?? false,
    ...(options.limits ? { limits: options.limits } : {}),
  });
  const address = await listener.start();
  cleanups.push(() => listener.stop(1));
  return { runtime, lines, listener, address };
}

interface ReceivedMessage {
  envelope: Envelope;
  /** Content as latin1, which shows every byte. */
  content: string;
}

interface MxHandlers extends Pick<SmtpRole, "isKnown"> {
  /** @throws Refusal */
  admit(recipient: string, declaredSize: number): void | Promise<void>;
  accept(envelope: Envelope, content: AsyncIterable<Uint8Array>): Promise<AcceptResult>;
}

/** Starts a listener before a fake that admits every client and keeps the mail that it accepts. */
export async function listenAndKeep(options: ListenerOptions & Partial<MxHandlers> = {}) {
  const accepted: ReceivedMessage[] = [];
  const kept: MxHandlers = {
    admit: options.admit ?? (() => {}),
    accept:
      options.accept ??
      (async (envelope, content) => {
        const chunks: Uint8Array[] = [];
        for await (const chunk of content) chunks.push(chunk);
        accepted.push({ envelope, content: Buffer.concat(chunks).toString("latin1") });
        return { emailIds: [`msg_${accepted.length}`], isReport: false };
      }),
  };
  const runtime = options.runtime ?? fakeRuntime();
  const logged = options.logged ?? testLog(runtime);
  const get = ((name: keyof typeof SETTINGS & `mx.${string}`) =>
    options.settings?.[name] ?? SETTINGS[name].default) as Options["get"];
  const core = { ...testCore(runtime), runtime, log: logged.log };
  const { isKnown: _, ...role } = openMxRole(
    { ...sendCore(core), options: { ...core.options, get } },
    {
      async resolve(_core, _verify, address, declaredSize) {
        await kept.admit(address, declaredSize);
        return { address };
      },
      accept: (_core, envelope, _recipients, content) => kept.accept(envelope, content),
    },
  );
  const known = { ...role, ...(options.isKnown && { isKnown: options.isKnown }) };
  return { ...(await listenAs(known, { ...options, runtime, logged })), accepted };
}

/** The role of the MX listener. By default it admits every client and keeps nothing. */
export const openMxRole = (
  core: ParsingCore,
  {
    resolve = async (_core, _verify, address) => ({ address }),
    accept = async () => ({ emailIds: [], isReport: false }),
  }: Pick<MxParts, "resolve" | "accept"> = {},
): SmtpRole =>
  createMxRole(core, {
    names: createDnsCache(core.runtime),
    greylist: createGreylist(core),
    verifyOnArrival: async () => {},
    resolve,
    accept,
  });

export interface MailboxRig extends Rig {
  core: ParsingCore;
  store: Store;
  folder: string;
  /** Sets a setting, as the operator does. */
  set(name: string, value: string): void;
  /** All filed messages, oldest first, with the address of the mailbox and the text. */
  filed(): { mailbox: string; receivedOn: string | null; subject: string; text: string; size: number; id: string }[];
}

interface MailboxOptions extends ListenerOptions {
  parser?: (parts: { blobFolder: string; runtime: FakeRuntime }) => ParserPool;
}

/**
 * A listener before a mailbox: example.test with alice@ (alias sales@), bob@, and full@, which has a quota of 1 kB;
 * other.test with carol@ and a catch-all to her. Alice owns the workspace.
 */
export async function listenForMailbox(options: MailboxOptions = {}): Promise<MailboxRig> {
  const folder = temporaryFolder();
  const runtime = options.runtime ?? fakeRuntime();
  const logged = testLog(runtime);
  const { log } = logged;
  const store = storeInFolder(folder, runtime);
  seed(store);
  const over = coreOver(store, runtime);
  const blobFolder = join(folder, "blobs");
  const parser =
    options.parser?.({ blobFolder, runtime }) ??
    createParserPool({
      blobFolder,
      names: createDnsCache(runtime),
      runtime,
      log,
      workers: 1,
      start: shareParser,
    });
  const core: ParsingCore = {
    ...over,
    log,
    site: { ...over.site, folder, hostname: "mx.example.test" },
    parser,
    spool: openSpool(join(folder, "spool")),
  };
  const role = openMxRole(core, { resolve: resolveRecipient, accept: acceptMessage });
  const rig = await listenAs(role, {
    ...options,
    runtime,
    logged,
    maxBytes: () => core.options.get("smtp.maxMessageBytes"),
  });
  cleanups.push(() => {
    parser.stop();
    store.close();
  });
  return {
    ...rig,
    core,
    store,
    folder,
    set: (name, value) => store.transact((tx) => core.options.set(tx, name, value)),
    filed: () =>
      store.db.query.messages
        .findMany()
        .sync()
        .map((row) => {
          const body = store.db.query.messageBodies
            .findFirst({ where: (t, { eq }) => eq(t.messageSeq, row.seq) })
            .sync();
          const owner = store.db.query.mailboxes.findFirst({ where: (t, { eq }) => eq(t.id, row.mailboxId) }).sync();
          const { receivedOn, subject, size, id } = row;
          return { mailbox: owner?.address ?? "", receivedOn, subject, text: body?.text ?? "", size, id };
        }),
  };
}

function seed(store: Store): void {
  const createdAt = START;
  store.transact((tx) => {
    tx.insert(schema.workspaces).values({ id: "wsp_1", name: "Test", createdAt }).run();
    const alice = { id: "usr_1", workspaceId: "wsp_1", email: "alice@example.test", name: "Alice", createdAt };
    tx.insert(schema.users)
      .values({ ...alice, role: "owner", passwordHash: null })
      .run();
    for (const name of ["example.test", "other.test"]) {
      tx.insert(schema.domains)
        .values({ id: name, workspaceId: "wsp_1", name, ownershipToken: "", verifiedAt: createdAt, createdAt })
        .run();
    }
    const address = (address: string, mailboxId: string, kind: "primary" | "alias" | "catch-all"): void => {
      const domainId = address.split("@")[1] as string;
      tx.insert(schema.addresses).values({ address, mailboxId, domainId, kind, createdAt }).run();
    };
    const mailbox = (address_: string, quotaBytes: number | null = null, ownerId: string | null = null): void => {
      const id = `mbx_${address_.split("@")[0]}`;
      tx.insert(schema.mailboxes)
        .values({ id, workspaceId: "wsp_1", address: address_, name: id, ownerId, quotaBytes, createdAt })
        .run();
      address(address_, id, "primary");
    };
    mailbox("alice@example.test", null, "usr_1");
    mailbox("bob@example.test");
    mailbox("full@example.test", 1_000);
    mailbox("carol@other.test");
    address("sales@example.test", "mbx_alice", "alias");
    address("*@other.test", "mbx_carol", "catch-all");
  });
}
