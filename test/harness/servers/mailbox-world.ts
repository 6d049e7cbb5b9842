/** A store in memory with workspaces, people and mailboxes, and mail filed as the appliance files it. */
import { asc } from "drizzle-orm";
import type { Caller } from "../../../src/access/caller.ts";
import { newId } from "../../../src/base/runtime.ts";
import { getThread } from "../../../src/mailbox/changing/threads.ts";
import type { Filed } from "../../../src/mailbox/filing/filing.ts";
import { listThreads } from "../../../src/mailbox/reading/listing.ts";
import type { ThreadFilters } from "../../../src/mailbox/state/views.ts";
import { splitAddress } from "../../../src/message/address.ts";
import {
  addresses,
  domains,
  events,
  type GrantAccess,
  grants,
  mailboxes,
  type Role,
  SCOPES,
  users,
  workspaces,
} from "../../../src/store/schema.ts";
import type { Options } from "../../../src/store/settings.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Letter } from "../mail/mail.ts";
import type { FakeRuntime } from "../runtime.ts";
import { fileLetter, type LetterFiling, type TestCore, testCore } from "./core.ts";

export interface World {
  core: TestCore;
  store: Store;
  runtime: FakeRuntime;
  options: Options;
  /** Adds a workspace with an unverified domain that receives mail, as old domains may. */
  workspace(name: string, domain: string): string;
  user(workspaceId: string, email: string, role: Role): Caller;
  /** Adds a mailbox, with an owner if `owner` is given. */
  box(workspaceId: string, address: string, owner?: Caller): string;
  /** Adds an address; `*@domain` is a catch-all. */
  alias(mailboxId: string, address: string): void;
  grant(mailboxId: string, to: Caller, access: GrantAccess): void;
  /** Files a message without advancing the clock. */
  file(mailboxId: string, mail: Letter | string, filing?: Partial<Omit<LetterFiling, "mailboxId">>): Promise<Filed>;
  /** All events so far, with their data. */
  events(): { event: string; data: Record<string, unknown> }[];
}

export function createWorld(core = testCore()): World {
  const { db, store, runtime, options } = core;
  const domainOf = new Map<string, string>();
  const addressOf = new Map<string, string>();
  const addAddress = (mailboxId: string, address: string, kind: "primary" | "alias" | "catch-all") => {
    const domainId = domainOf.get(splitAddress(address).domain);
    if (domainId === undefined) throw new Error(`no domain for ${address}`);
    db.insert(addresses).values({ address, mailboxId, domainId, kind, createdAt: runtime.now() }).run();
  };
  return {
    core,
    store,
    runtime,
    options,
    workspace(name, domain) {
      const id = newId(runtime, "wsp");
      db.insert(workspaces).values({ id, name, createdAt: runtime.now() }).run();
      const domainId = newId(runtime, "dom");
      domainOf.set(domain, domainId);
      db.insert(domains)
        .values({
          id: domainId,
          workspaceId: id,
          name: domain,
          ownershipToken: "token",
          createdAt: runtime.now(),
          acceptsUnverified: true,
        })
        .run();
      return id;
    },
    user(workspaceId, email, role) {
      const userId = newId(runtime, "usr");
      db.insert(users).values({ id: userId, workspaceId, email, name: email, role, createdAt: runtime.now() }).run();
      return { userId, workspaceId, role, email, scopes: new Set(SCOPES) };
    },
    box(workspaceId, address, owner) {
      const id = newId(runtime, "mbx");
      db.insert(mailboxes)
        .values({ id, workspaceId, address, name: address, ownerId: owner?.userId ?? null, createdAt: runtime.now() })
        .run();
      addAddress(id, address, "primary");
      addressOf.set(id, address);
      return id;
    },
    alias: (mailboxId, address) => addAddress(mailboxId, address, address.startsWith("*@") ? "catch-all" : "alias"),
    grant(mailboxId, to, access) {
      db.insert(grants).values({ mailboxId, userId: to.userId, access }).run();
    },
    file: (mailboxId, mail, filing = {}) =>
      fileLetter(core, mail, { mailboxId, receivedOn: addressOf.get(mailboxId) ?? "", ...filing }),
    events: () => db.select({ event: events.event, data: events.data }).from(events).orderBy(asc(events.seq)).all(),
  };
}

/** The code of the AppError that is thrown, if one is. */
export const codeOf = (act: () => unknown): string | undefined => {
  try {
    act();
    return undefined;
  } catch (error) {
    return (error as { code: string }).code;
  }
};

/** Makes a world with one workspace and one person with a mailbox, enough for most tests. `all`: how all of her mail is filed. */
export function createAlice(all: Parameters<World["file"]>[2] = {}) {
  const world = createWorld();
  const workspaceId = world.workspace("Demo", "example.test");
  const alice = world.user(workspaceId, "alice@example.test", "owner");
  const box = world.box(workspaceId, "alice@example.test", alice);
  return {
    ...world,
    world,
    workspaceId,
    alice,
    box,
    /** Files a message into her mailbox. */
    receive: (mail: Letter | string, filing: Parameters<World["file"]>[2] = {}) =>
      world.file(box, mail, { ...all, ...filing }),
    /** Files a message that she sent. */
    send: (mail: Letter, filing: Parameters<World["file"]>[2] = {}) =>
      world.file(
        box,
        { from: "Alice <alice@example.test>", to: "Carol <carol@remote.example>", ...mail },
        { ...all, kind: "sent", sentBy: alice.userId, ...filing },
      ),
    thread: (id: string) => getThread(world.core, alice, id, { html: true }).thread,
    messages: (id: string) => getThread(world.core, alice, id, { html: true }).messages,
    /** Ids of the conversations of a list, newest first. */
    listed: async (filters: Partial<ThreadFilters> = {}) =>
      (await listThreads(world.core, alice, { limit: 100, ...filters })).threads.map(({ id }) => id),
  };
}
