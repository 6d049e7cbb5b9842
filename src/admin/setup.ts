/** Makes the first workspace: all that a fresh appliance needs to take and serve mail, in one transaction. */
import { AppError } from "../base/errors.ts";
import { splitAddress } from "../message/address.ts";
import { MAIL_SCOPES } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import type { Developers } from "./developers.ts";
import type { DnsRecord } from "./dns.ts";
import { type Domains, makeDkimKeys } from "./domains.ts";
import { addressOf, domainOf } from "./names.ts";
import { hashPassword, type People } from "./people.ts";

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

export interface SetupParts {
  store: Store;
  people: People;
  domains: Domains;
  developers: Developers;
}

/** @throws AppError conflict when a workspace exists, and what its parts refuse; nothing is made then */
export async function setUp({ store, people, domains, developers }: SetupParts, given: Setup): Promise<SetupResult> {
  const domain = domainOf(given.domain);
  const address = addressOf(given.email);
  if (splitAddress(address).domain !== domain) {
    throw new AppError("bad_request", `${address} is not at ${domain}: the owner gets a mailbox there`);
  }
  const refuseSecond = (): void => {
    if (people.listWorkspaces().length === 0) return;
    throw new AppError("conflict", "there is a workspace already: setup only makes the first");
  };
  refuseSecond();
  const [keys, passwordHash] = await Promise.all([makeDkimKeys(), hashPassword(given.password)]);
  return store.transact((tx) => {
    refuseSecond();
    const { name } = given;
    const workspaceId = people.addWorkspace(tx, given.workspace ?? domain).id;
    const { id: domainId } = domains.addDomain(tx, workspaceId, domain, keys);
    const owner = { workspaceId, email: address, name, role: "owner", passwordHash, ownMailbox: false } as const;
    const { userId } = people.addUser(tx, owner);
    const mailboxId = people.addMailbox(tx, { workspaceId, address, name, ownerId: userId });
    const { key: apiKey } = developers.createKey(tx, { userId, name: "Setup", scopes: MAIL_SCOPES });
    return { workspaceId, userId, mailboxId, address, apiKey, dns: domains.recordsOf(domainId) };
  });
}
