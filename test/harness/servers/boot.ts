/** A whole appliance in the test's process: database in memory, fake clock, real sockets on free ports. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as developers from "../../../src/admin/developers.ts";
import * as domains from "../../../src/admin/domains.ts";
import { makeDkimKeys } from "../../../src/admin/domains.ts";
import * as mailboxAdmin from "../../../src/admin/mailbox-admin.ts";
import * as people from "../../../src/admin/people.ts";
import * as workspaceAdmin from "../../../src/admin/workspace-admin.ts";
import type { DnsClient, Runtime } from "../../../src/base/runtime.ts";
import type { DoctorOptions } from "../../../src/doctor/doctor.ts";
import { type Ready, type Server, serve } from "../../../src/serve.ts";
import { emptyDatabase } from "../../../src/store/migrate.ts";
import { type GrantAccess, MAIL_SCOPES, type Role, SCOPES, type Scope } from "../../../src/store/schema.ts";
import type { Tx } from "../../../src/store/store.ts";
import type { StartParser } from "../../../src/workers/parser-process.ts";
import { apiClient, type Client } from "../clients/api.ts";
import { atEndOfFile } from "../end.ts";
import type { FakeRuntime } from "../runtime.ts";
import { openInMemory, type TestCore, type TestOpened } from "./core.ts";
import { shareParser } from "./parser.ts";

/** The address of a listener. */
interface Address {
  host: string;
  port: number;
}

/** Somebody who joined, with a mailbox and a key. */
export interface Person {
  email: string;
  userId: string;
  mailboxId: string;
  keyId: string;
  key: string;
}

export interface Booted {
  opened: TestOpened;
  core: TestCore;
  server: Server;
  runtime: FakeRuntime;
  /** The workspace with its owner alice@example.test, verified, and a key with all scopes. Rates are high. */
  owner: { workspaceId: string; userId: string; mailboxId: string; apiKey: string };
  /** The API with the owner's key. */
  api: Client;
  /** The API with another key, or none. */
  apiWith(key?: string): Client;
  /** Runs one transaction. */
  write<T>(work: (tx: Tx) => T): T;
  /** Makes a key. */
  keyOf(userId: string, scopes?: readonly Scope[]): string;
  /**
   * Adds somebody with a key for all that they may do. By default a member of the owner's workspace, who is called as their
   * address; `access`: to the owner's mailbox.
   */
  join(email: string, role?: Role, more?: { name?: string; access?: GrantAccess; workspaceId?: string }): Person;
  mx: Address;
  submission: Address;
  submissions: Address;
  /** `http://host:port` */
  http: string;
  /** The result of `start`. */
  ready: Ready;
  /** Log lines so far. */
  lines: Record<string, unknown>[];
  /** Moves the clock, runs the jobs that fall due, and waits for them. */
  advance(ms: number): Promise<void>;
}

/** Made once in a process, since an RSA key takes some tenths of a second. */
const dkimKeys = makeDkimKeys();

/** The first certificate that this process made. Other appliances with the same name find it in their folders. */
let certificate: Buffer | undefined;

const running = new Set<Server>();
atEndOfFile(async () => {
  await Promise.all([...running].map((server) => server.stop(0)));
  running.clear();
});

/** The doctor's checks, by default none; the database, by default a new one in memory; the workers, by default shared. */
type Checked = Pick<DoctorOptions, "checks"> & {
  file?: string | Uint8Array;
  startParser?: StartParser;
  allow?: readonly string[];
};

/** `dns`: without it, no name exists. `world`: other parts of the runtime that differ. */
export async function boot(
  env: Record<string, string> = {},
  dns?: DnsClient,
  { checks = {}, ...world }: Partial<Runtime> & Checked = {},
): Promise<Booted> {
  const keys = await dkimKeys;
  let owner: Booted["owner"] | undefined;
  const started = await bootEmpty(env, { ...(dns && { dns }), ...world, checks }, ({ core }) => {
    const { store, options } = core;
    owner = store.transact((tx) => addOwner(core, tx, keys, "Example", "example.test"));
    store.transact((tx) => {
      options.set(tx, "api.ipRequestsPerMinute", "1000000");
      options.set(tx, "api.keyRequestsPerMinute", "1000000");
    });
  });
  if (!owner) throw new Error("nobody owns it");
  return { ...started, ...seenBy(started, owner) };
}

/**
 * Adds a workspace at this domain, with its owner alice@domain, to the same server, and returns the server as that workspace
 * sees it.
 */
export async function bootBeside(booted: Booted, name: string, domain: string): Promise<Booted> {
  const keys = await dkimKeys;
  const owner = booted.write((tx) => addOwner(booted.core, tx, keys, name, domain));
  return { ...booted, ...seenBy(booted, owner) };
}

function addOwner(core: TestCore, tx: Tx, keys: Awaited<typeof dkimKeys>, workspace: string, domain: string) {
  const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, workspace);
  domains.markDomainVerified(core, tx, domains.addDomain(core, tx, workspaceId, domain, keys).id);
  const alice = { workspaceId, email: `alice@${domain}`, name: "Alice", role: "owner", ownMailbox: true } as const;
  const { userId, mailboxId = "" } = people.addUser(core, tx, alice);
  const { key: apiKey } = developers.createKey(core, tx, { userId, name: "Tests", scopes: SCOPES });
  return { workspaceId, userId, mailboxId, apiKey };
}

function seenBy(
  { core, write, apiWith }: Omit<Booted, "owner" | "api" | "join">,
  owner: Booted["owner"],
): Pick<Booted, "owner" | "api" | "join"> {
  const join: Booted["join"] = (
    email,
    role = "member",
    { name = email, access, workspaceId = owner.workspaceId } = {},
  ) =>
    write((tx) => {
      const person = { workspaceId, email, name, role, ownMailbox: true };
      const { userId, mailboxId = "" } = people.addUser(core, tx, person);
      if (access) mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, userId, access);
      const scopes = role === "member" ? MAIL_SCOPES : SCOPES;
      const { id, key } = developers.createKey(core, tx, { userId, name: `${name}'s tests`, scopes });
      return { email, userId, mailboxId, keyId: id, key };
    });
  return { owner, api: apiWith(owner.apiKey), join };
}

/** Starts one without a workspace, as after an installation. `prepare` runs before. */
export async function bootEmpty(
  env: Record<string, string> = {},
  { checks = {}, file = emptyDatabase(), startParser = shareParser, allow, ...world }: Partial<Runtime> & Checked = {},
  prepare: (opened: TestOpened) => void = () => {},
): Promise<Omit<Booted, "owner" | "api" | "join">> {
  const opened = openInMemory(env, { file, doctor: { checks }, ...world });
  const { core, config } = opened;
  prepare(opened);
  const certificatePath = join(config.data, "tls", "self-signed.pem");
  if (certificate) {
    mkdirSync(dirname(certificatePath), { recursive: true });
    writeFileSync(certificatePath, certificate);
  }
  const server = await serve(opened, { startParser, ...(allow && { allow }) });
  running.add(server);
  const { ready } = server;
  if (!certificate && existsSync(certificatePath)) certificate = readFileSync(certificatePath);
  const addressOf = (listener: string): Address => {
    const [host = "", port = ""] = listener.split(":");
    return { host, port: Number(port) };
  };
  const { store, runtime, lines } = core;
  const write: Booted["write"] = (work) => store.transact((tx) => ({ done: work(tx) })).done as never;
  return {
    opened,
    core,
    server,
    runtime,
    apiWith: (key) => apiClient(`http://${ready.http}`, key),
    write,
    keyOf: (userId, scopes = SCOPES) =>
      write((tx) => developers.createKey(core, tx, { userId, name: "Another", scopes })).key,
    mx: addressOf(ready.mx),
    submission: addressOf(ready.submission),
    submissions: addressOf(ready.submissions),
    http: `http://${ready.http}`,
    ready,
    lines,
    async advance(ms) {
      runtime.advanceTo(runtime.now() + ms);
      await server.settled();
    },
  };
}
