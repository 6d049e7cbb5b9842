/**
 * Makes the first workspace: all that a fresh appliance needs to take and serve mail, in one transaction. At the
 * command line, or in the browser with the token that the server prints when it starts without a workspace.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { createConcurrencyLimits, type Slowdown } from "../access/slowdown.ts";
import { AppError } from "../base/errors.ts";
import { randomToken } from "../base/runtime.ts";
import { splitAddress } from "../message/address.ts";
import type { Core } from "../store/core.ts";
import { MAIL_SCOPES } from "../store/schema.ts";
import { createKey } from "./developers.ts";
import type { DnsRecord } from "./dns.ts";
import { addDomain, listDomainRecords, makeDkimKeys } from "./domains.ts";
import { addMailbox } from "./mailbox-admin.ts";
import { addUser, hashNewPassword } from "./people.ts";
import { readTypedAddress, readTypedDomain } from "./typed-names.ts";
import { addWorkspace, listWorkspaces } from "./workspace-admin.ts";

export interface Setup {
  domain: string;
  /** The owner's address, at that domain. */
  email: string;
  /** The owner's name. */
  name: string;
  /** Name of the workspace; by default the domain. */
  workspace?: string | undefined;
  password: string;
}

export interface SetupResult {
  workspaceId: string;
  userId: string;
  mailboxId: string;
  address: string;
  /** A key with MAIL_SCOPES; only this result shows it. */
  apiKey: string;
  dns: DnsRecord[];
}

/** @throws AppError conflict when a workspace exists, and what its parts refuse; nothing is made then */
export async function setUpFirstWorkspace(core: Core, given: Setup): Promise<SetupResult> {
  const domain = readTypedDomain(given.domain);
  const address = readTypedAddress(given.email);
  if (splitAddress(address).domain !== domain) {
    throw new AppError("bad_request", `${address} is not at ${domain}: the owner gets a mailbox there`);
  }
  const refuseSecond = (): void => {
    if (listWorkspaces(core).length === 0) return;
    throw new AppError("conflict", "there is a workspace already: setup only makes the first");
  };
  refuseSecond();
  const [keys, passwordHash] = await Promise.all([makeDkimKeys(), hashNewPassword(given.password)]);
  return core.store.transact((tx) => {
    refuseSecond();
    const { name } = given;
    const workspaceId = addWorkspace(core, tx, given.workspace ?? domain).id;
    const { id: domainId } = addDomain(core, tx, workspaceId, domain, keys);
    const owner = { workspaceId, email: address, name, role: "owner", passwordHash, ownMailbox: false } as const;
    const { userId } = addUser(core, tx, owner);
    const mailboxId = addMailbox(core, tx, { workspaceId, address, name, ownerId: userId });
    const { key: apiKey } = createKey(core, tx, { userId, name: "Setup", scopes: MAIL_SCOPES });
    return { workspaceId, userId, mailboxId, address, apiKey, dns: listDomainRecords(core, domainId) };
  });
}

/*
 * Setup in the browser, with a token. Invariant: only the last issued token is valid, and only while there is no
 * workspace. The transaction that makes the first workspace ends it, even when the command line began that transaction.
 */

/** 256 bits. */
const TOKEN_LENGTH = 43;

const hashSetupToken = (token: string): Buffer => createHash("sha256").update(token).digest();

/** Guesses of one source at once, and waiting. */
const GUESSES = { atOnce: 1, mostWaiting: 20 };

export type FirstRun = ReturnType<typeof createFirstRun>;

export function createFirstRun(core: Core) {
  let issued: Buffer | undefined;
  const slots = createConcurrencyLimits(GUESSES);
  const isDue = (): boolean => listWorkspaces(core).length === 0;
  const admits = (token: string): boolean =>
    issued !== undefined && isDue() && timingSafeEqual(issued, hashSetupToken(token));
  return {
    /** Tells whether there is no workspace yet. */
    isDue,
    /** Issues a token that replaces any earlier one; undefined when there is a workspace. */
    issueToken(): string | undefined {
      if (!isDue()) return undefined;
      const token = randomToken(core.runtime, TOKEN_LENGTH);
      issued = hashSetupToken(token);
      return token;
    },
    /** Tells whether the token is valid. */
    admits,
    /** @throws AppError conflict once there is a workspace; forbidden for a wrong token, after a delay; rate_limited */
    async requireToken(token: string, source: string, slowdown: Slowdown): Promise<void> {
      if (!isDue()) throw new AppError("conflict", "This server is already set up: sign in");
      if (admits(token)) return;
      await slots.within(source, () => slowdown.failed(source));
      throw new AppError("forbidden", "This link no longer works: open the one that the server printed last");
    },
    /** @throws AppError as setUpFirstWorkspace does: conflict when a workspace exists. */
    setUp: (given: Setup): Promise<SetupResult> => setUpFirstWorkspace(core, given),
  };
}
