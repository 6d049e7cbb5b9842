/** Calls that administer a workspace: people, mailboxes, domains, outbound mail, the server's settings. */
import { queryOptions } from "@tanstack/react-query";
import type { addDomain, getDomain, listDomains, removeDomain, verifyDomain } from "../../operations/admin/domains.ts";
import type {
  addAlias,
  addGrant,
  addMailbox,
  changeMailbox,
  listWorkspaceMailboxes,
  removeAlias,
  removeGrant,
  removeMailbox,
} from "../../operations/admin/mailboxes.ts";
import type {
  addPerson,
  addPersonWithPassword,
  changePerson,
  listPeople,
  lockPerson,
  makePasswordLink,
  removePerson,
  resetSecondFactor,
  setPersonPassword,
  unlockPerson,
} from "../../operations/admin/people.ts";
import type { cancelDelivery, listQueue, retryDelivery } from "../../operations/admin/queue.ts";
import type { addSuppression, listSuppressions, removeSuppression } from "../../operations/admin/suppressions.ts";
import type { getWorkspace, renameWorkspace } from "../../operations/admin/workspace.ts";
import type { AnswerOf } from "../../operations/operation.ts";
import type {
  examineServer,
  getFindings,
  getServer,
  resetSetting,
  setSetting,
} from "../../operations/operator/server.ts";
import type { addWorkspace, listWorkspaces, pauseWorkspace } from "../../operations/operator/workspaces.ts";
import { type BodyOf, call, callAll, MOST_OF_A_PAGE } from "./call.ts";

export type PersonView = AnswerOf<typeof listPeople>["people"][number];
export type LockedView = AnswerOf<typeof lockPerson>;
export type MailboxView = AnswerOf<typeof listWorkspaceMailboxes>["mailboxes"][number];
export type DomainView = AnswerOf<typeof getDomain>;
export type SuppressionView = AnswerOf<typeof addSuppression>;
export type QueueEntryView = AnswerOf<typeof listQueue>["queue"][number];
export type WorkspaceEntryView = AnswerOf<typeof addWorkspace>;
export type ServerView = AnswerOf<typeof getServer>;
export type SettingView = ServerView["settings"][number];
export type DoctorView = AnswerOf<typeof getFindings>;
export type LookView = NonNullable<DoctorView["last"]>;

/**
 * One key for all of it, since changes affect each other: a new person may have a mailbox, a removed one had shares.
 */
export const WORKSPACE = ["settings", "workspace"] as const;

export const ROLES = ["member", "admin", "owner"] as const;
/** Kinds of access that a share gives. */
export const SHARES = [
  { value: "view", text: "view: read" },
  { value: "send", text: "send: read and send" },
  { value: "full", text: "full: read, send and organise" },
] as const;

const WHILE_REMOVING_MS = 2_000;
const WHILE_EXAMINING_MS = 500;

/** Options of a query of this section. */
const querying = <T>(name: string, queryFn: () => Promise<T>) =>
  queryOptions({ queryKey: [...WORKSPACE, name], queryFn });

/** The server lists by age, which pages need; people look for a name. */
const sortedBy = <T>(list: readonly T[], keyOf: (item: T) => string): T[] =>
  list.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));

/** By address. */
export const peopleQuery = querying("people", async () =>
  sortedBy(await callAll<typeof listPeople>("/settings/people", "people"), ({ email }) => email),
);
/** By address. */
export const mailboxesSettingsQuery = {
  ...querying("mailboxes", async () =>
    sortedBy(
      await callAll<typeof listWorkspaceMailboxes>("/settings/mailboxes", "mailboxes"),
      ({ address }) => address,
    ),
  ),
  // A removal takes the server some time.
  refetchInterval: ({ state }: { state: { data?: MailboxView[] | undefined } }) =>
    state.data?.some(({ removing }) => removing) ? WHILE_REMOVING_MS : false,
} as const;
/** By name. */
export const domainsQuery = querying("domains", async () =>
  sortedBy(await callAll<typeof listDomains>("/settings/domains", "domains"), ({ name }) => name),
);
/** Warns admins of a domain that the workspace has not verified or has lost; undefined for a verified one. */
export function domainWarning({ name, state, takesMail }: DomainView): string | undefined {
  if (state === "verified") return undefined;
  if (state === "lost") {
    return `Another workspace verified ${name}: no mail comes to your addresses there, and none can be sent from them. The mail in their mailboxes can still be read.`;
  }
  return takesMail
    ? `${name} takes mail without being verified, as before, until another workspace verifies it. Publish its records, then verify it.`
    : `Until ${name} is verified no mail comes to its addresses, and none can be sent from them. Publish its records, then verify it.`;
}

export const suppressionsQuery = querying("suppressions", () =>
  callAll<typeof listSuppressions>("/settings/suppressions", "suppressions"),
);
/** Only the first page, since a queue may hold millions of entries. */
export const queueQuery = querying("queue", () =>
  call<typeof listQueue>("GET", "/settings/queue", { query: { limit: MOST_OF_A_PAGE } }),
);
export const workspaceQuery = querying("workspace", () => call<typeof getWorkspace>("GET", "/settings/workspace"));
export const workspacesQuery = querying("workspaces", () => call<typeof listWorkspaces>("GET", "/settings/workspaces"));
export const doctorQuery = {
  ...querying("doctor", () => call<typeof getFindings>("GET", "/settings/doctor")),
  refetchInterval: ({ state }: { state: { data?: DoctorView | undefined } }) =>
    state.data?.running ? WHILE_EXAMINING_MS : false,
} as const;
export const serverQuery = querying("server", () => call<typeof getServer>("GET", "/settings/server"));

/** A domain with the present state of its records in DNS. */
export const recordsQuery = (id: string) =>
  queryOptions({
    queryKey: ["settings", "records", id],
    queryFn: () => call<typeof getDomain>("GET", "/settings/domains/:id", { params: { id } }),
  });

interface Id {
  id: string;
}

export const workspaceApi = {
  addPerson: ({ password, ...body }: BodyOf<typeof addPerson> & { password?: string }) =>
    password === undefined
      ? call<typeof addPerson>("POST", "/settings/people", { body })
      : call<typeof addPersonWithPassword>("POST", "/settings/people/with-password", { body: { ...body, password } }),
  changePerson: ({ id, ...body }: Id & BodyOf<typeof changePerson>) =>
    call<typeof changePerson>("PATCH", "/settings/people/:id", { params: { id }, body }),
  setPassword: ({ id, ...body }: Id & BodyOf<typeof setPersonPassword>) =>
    call<typeof setPersonPassword>("POST", "/settings/people/:id/password", { params: { id }, body }),
  resetSecondFactor: (id: string) =>
    call<typeof resetSecondFactor>("DELETE", "/settings/people/:id/second-factor", { params: { id } }),
  makePasswordLink: (id: string) =>
    call<typeof makePasswordLink>("POST", "/settings/people/:id/link", { params: { id } }),
  lockPerson: (id: string) => call<typeof lockPerson>("POST", "/settings/people/:id/lock", { params: { id } }),
  unlockPerson: (id: string) => call<typeof unlockPerson>("POST", "/settings/people/:id/unlock", { params: { id } }),
  removePerson: (id: string) => call<typeof removePerson>("DELETE", "/settings/people/:id", { params: { id } }),

  addMailbox: (body: BodyOf<typeof addMailbox>) => call<typeof addMailbox>("POST", "/settings/mailboxes", { body }),
  changeMailbox: ({ id, ...body }: Id & BodyOf<typeof changeMailbox>) =>
    call<typeof changeMailbox>("PATCH", "/settings/mailboxes/:id", { params: { id }, body }),
  removeMailbox: (id: string) => call<typeof removeMailbox>("DELETE", "/settings/mailboxes/:id", { params: { id } }),
  addAlias: ({ id, ...body }: Id & BodyOf<typeof addAlias>) =>
    call<typeof addAlias>("POST", "/settings/mailboxes/:id/aliases", { params: { id }, body }),
  removeAlias: (params: Id & { alias: string }) =>
    call<typeof removeAlias>("DELETE", "/settings/mailboxes/:id/aliases/:alias", { params }),
  share: ({ id, ...body }: Id & BodyOf<typeof addGrant>) =>
    call<typeof addGrant>("POST", "/settings/mailboxes/:id/grants", { params: { id }, body }),
  unshare: (params: Id & { userId: string }) =>
    call<typeof removeGrant>("DELETE", "/settings/mailboxes/:id/grants/:userId", { params }),

  addDomain: (name: string) => call<typeof addDomain>("POST", "/settings/domains", { body: { name } }),
  verifyDomain: (id: string) => call<typeof verifyDomain>("POST", "/settings/domains/:id/verify", { params: { id } }),
  removeDomain: (id: string) => call<typeof removeDomain>("DELETE", "/settings/domains/:id", { params: { id } }),

  suppress: (body: BodyOf<typeof addSuppression>) =>
    call<typeof addSuppression>("POST", "/settings/suppressions", { body }),
  unsuppress: (id: string) =>
    call<typeof removeSuppression>("DELETE", "/settings/suppressions/:id", { params: { id } }),
  retry: (id: string) => call<typeof retryDelivery>("POST", "/settings/queue/:id/retry", { params: { id } }),
  cancel: (id: string) => call<typeof cancelDelivery>("POST", "/settings/queue/:id/cancel", { params: { id } }),

  renameWorkspace: (name: string) => call<typeof renameWorkspace>("PATCH", "/settings/workspace", { body: { name } }),
  addWorkspace: (body: BodyOf<typeof addWorkspace>) =>
    call<typeof addWorkspace>("POST", "/settings/workspaces", { body }),
  pauseWorkspace: ({ id, ...body }: Id & BodyOf<typeof pauseWorkspace>) =>
    call<typeof pauseWorkspace>("PATCH", "/settings/workspaces/:id", { params: { id }, body }),

  examine: () => call<typeof examineServer>("POST", "/settings/doctor"),

  set: ({ name, value }: { name: string; value: string }) =>
    call<typeof setSetting>("PATCH", "/settings/server/:name", { params: { name }, body: { value } }),
  reset: (name: string) => call<typeof resetSetting>("DELETE", "/settings/server/:name", { params: { name } }),
};
