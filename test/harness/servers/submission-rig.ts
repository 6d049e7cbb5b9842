/** A submission listener on a real socket, with people in a store and a fake of the pipeline. */
import { join } from "node:path";
import { eq } from "drizzle-orm";
import type { Caller } from "../../../src/access/caller.ts";
import { createApiKey, revokeApiKey } from "../../../src/access/credentials.ts";
import { openSignInServices } from "../../../src/access/identity.ts";
import type { Submission, submitMessage } from "../../../src/outbound/accept.ts";
import { createSubmissionRole } from "../../../src/outbound/submission.ts";
import { openSpool } from "../../../src/smtp/spool.ts";
import { domains, type Scope, users } from "../../../src/store/schema.ts";
import { connectSmtp, type Reply, type SmtpClient } from "../clients/smtp-client.ts";
import { temporaryFolder } from "../folder.ts";
import { quickHash } from "../quick-hash.ts";
import { sendCore } from "./core.ts";
import { createWorld, type World } from "./mailbox-world.ts";
import { type ListenerOptions, listenAs, type Rig, testLog } from "./mx-rig.ts";

export const PASSWORD = "correct horse battery";
const hash = quickHash(PASSWORD);

/** A message in the pipeline. */
export type Submitted = Omit<Submission, "compose"> & {
  /** Content as latin1, which shows every byte. */
  content: string;
};

export interface SubmissionRig extends Rig {
  world: World;
  workspaceId: string;
  /** Owner of the workspace, with a password and alice@example.test, alias sales@. */
  alice: Caller;
  /** Member with a password and bob@. May send from shared@ and only read view@. */
  bob: Caller;
  /** Member without a password, with carol@. */
  carol: Caller;
  /** Owner of another workspace: mallory@other.test, with a password. */
  mallory: Caller;
  submitted: Submitted[];
  spoolFolder: string;
  /** Sets a setting, as the operator does. */
  set(name: string, value: string): void;
  keyOf(person: Caller, scopes?: Scope[]): string;
  /** Revokes the only key of that value. */
  revoke(key: string): void;
  /** Changes or removes her password. */
  setPassword(person: Caller, password: string | null): Promise<void>;
  /** Opens a session under TLS, after EHLO. */
  connect(): Promise<SmtpClient>;
  /** Opens a session and signs in, by default with a new API key, which is quicker than a password. */
  connectAs(person: Caller, secret?: string): Promise<SmtpClient>;
}

export const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** Sends `AUTH PLAIN` and returns its reply. */
export const authPlain = (client: SmtpClient, username: string, secret: string): Promise<Reply> =>
  client.command(`AUTH PLAIN ${base64(`\0${username}\0${secret}`)}`);

/** Gives code and enhanced status code of a reply. */
export const brief = ({ code, status }: Reply): string => (status === "" ? String(code) : `${code} ${status}`);

/** `submit` is called before the message counts as submitted, and may refuse it. */
export async function listenForSubmission(
  options: ListenerOptions & { submit?: (submission: Submission) => unknown } = {},
): Promise<SubmissionRig> {
  const world = createWorld();
  const { store } = world;
  const runtime = world.runtime;
  const settings = world.core.options;
  const workspaceId = world.workspace("Demo", "example.test");
  const alice = world.user(workspaceId, "alice@example.test", "owner");
  const bob = world.user(workspaceId, "bob@example.test", "member");
  const carol = world.user(workspaceId, "carol@example.test", "member");
  world.alias(world.box(workspaceId, alice.email, alice), "sales@example.test");
  world.box(workspaceId, bob.email, bob);
  world.box(workspaceId, carol.email, carol);
  world.grant(world.box(workspaceId, "shared@example.test"), bob, "send");
  world.grant(world.box(workspaceId, "view@example.test"), bob, "view");
  const elsewhere = world.workspace("Elsewhere", "other.test");
  store.db.update(domains).set({ verifiedAt: 0 }).run();
  const mallory = world.user(elsewhere, "mallory@other.test", "owner");
  world.box(elsewhere, mallory.email, mallory);

  const setHash = ({ userId }: Caller, passwordHash: string | null) =>
    void store.db.update(users).set({ passwordHash }).where(eq(users.id, userId)).run();
  for (const person of [alice, bob, mallory]) setHash(person, await hash);

  const submitted: Submitted[] = [];
  const submit: typeof submitMessage = async (_, submission) => {
    await options.submit?.(submission);
    const { compose, ...known } = submission;
    const content = Buffer.from((await compose()) as Uint8Array).toString("latin1");
    submitted.push({ ...known, content });
    const emailId = `msg_${submitted.length}`;
    const { messageId, from, mailbox } = submission;
    return { messageId, emailId, threadId: "thr_1", mailboxId: mailbox.id, from };
  };
  const logged = testLog(runtime);
  const { log } = logged;
  const spoolFolder = join(temporaryFolder(), "spool");
  const core = {
    ...sendCore(world.core),
    log,
    spool: openSpool(spoolFolder),
    site: { ...world.core.site, hostname: "mail.example.test" },
  };
  const { signIn } = openSignInServices(core);
  const role = createSubmissionRole(core, { signIn, submit });
  const rig = await listenAs(role, {
    ...options,
    runtime,
    logged,
    maxBytes: () => settings.get("smtp.maxMessageBytes"),
  });
  const keyIds = new Map<string, string>();

  function keyOf({ userId }: Caller, scopes: Scope[] = ["send"]): string {
    const { id, key } = store.transact((tx) => createApiKey(tx, runtime, { userId, name: "app", scopes }));
    keyIds.set(key, id);
    return key;
  }

  const connect = async (): Promise<SmtpClient> => {
    if (options.implicitTls) return connectSmtp(rig.address, { tls: true });
    const client = await connectSmtp(rig.address);
    await client.expect(220, "STARTTLS");
    await client.secure();
    await client.expect(250, "EHLO client.example");
    return client;
  };
  return {
    ...rig,
    world,
    workspaceId,
    alice,
    bob,
    carol,
    mallory,
    submitted,
    spoolFolder,
    connect,
    keyOf,
    set: (name, value) => store.transact((tx) => settings.set(tx, name, value)),
    revoke: (key) => void store.transact((tx) => revokeApiKey(tx, keyIds.get(key) ?? "", runtime.now())),
    setPassword: async (person, password) => setHash(person, password === null ? null : await quickHash(password)),
    async connectAs(person, secret = keyOf(person)) {
      const client = await connect();
      const reply = await authPlain(client, person.email, secret);
      if (reply.code !== 235) throw new Error(`AUTH: ${reply.code} ${reply.lines.join(" / ")}`);
      return client;
    },
  };
}
