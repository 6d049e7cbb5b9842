/** The first workspace: all that a fresh appliance needs to take and serve mail, in one transaction. */
import { AppError } from "../errors.ts";
import { SCOPES } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import type { Developers } from "./developers.ts";
import type { DnsRecord } from "./dns.ts";
import { type Domains, makeDkimKeys } from "./domains.ts";
import { hashPassword, type People } from "./people.ts";

export interface Setup {
  domain: string;
  /** The owner's address, at that domain. */
  email: string;
  /** The owner's name. */
  name: string;
  workspace: string;
  password: string;
}

export interface SetupResult {
  workspaceId: string;
  domainId: string;
  userId: string;
  mailboxId: string;
  address: string;
  /** With every scope; not shown again. */
  apiKey: string;
  dns: DnsRecord[];
}

export interface SetupDeps {
  store: Store;
  people: People;
  domains: Domains;
  developers: Developers;
}

/** @throws AppError conflict when a workspace exists, and what its parts refuse; then nothing was made. */
export async function setUp({ store, people, domains, developers }: SetupDeps, given: Setup): Promise<SetupResult> {
  const refuseSecond = (): void => {
    if (people.listWorkspaces().length === 0) return;
    throw new AppError(
      "conflict",
      "this appliance is set up already; add to it with workspace add, domain add, user add",
    );
  };
  refuseSecond();
  const [keys, passwordHash] = await Promise.all([makeDkimKeys(), hashPassword(given.password)]);
  return store.transact((tx) => {
    refuseSecond();
    const workspaceId = people.addWorkspace(tx, given.workspace).id;
    const domain = domains.addDomain(tx, workspaceId, given.domain, keys);
    const owner = { workspaceId, email: given.email, name: given.name, role: "owner", passwordHash } as const;
    const { userId } = people.addUser(tx, { ...owner, ownMailbox: false });
    const { email: address } = people.userAt(given.email);
    const mailboxId = people.addMailbox(tx, { workspaceId, address, name: given.name, ownerId: userId });
    const { key } = developers.createKey(tx, { userId, name: "Setup", scopes: SCOPES });
    return {
      workspaceId,
      domainId: domain.id,
      userId,
      mailboxId,
      address,
      apiKey: key,
      dns: domains.recordsOf(domain.id),
    };
  });
}
