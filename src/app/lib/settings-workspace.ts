/** Requests that administer a workspace: people, mailboxes, domains, outbound mail, the server's settings. */
import { queryOptions } from "@tanstack/react-query";
import type {
  DoctorView,
  DomainView,
  MailboxAdminView,
  MailboxesView,
  ServerView,
  SettingView,
  UserView,
  WorkspaceEntryView,
  WorkspaceView,
} from "../../http/admin-views.ts";
import type { QueueEntryView } from "../../operations/admin/queue.ts";
import type { SuppressionView } from "../../operations/admin/suppressions.ts";
import { ask, askAll, askPage, idOf } from "./ask.ts";

export type {
  DoctorView,
  DomainView,
  LookView,
  MailboxAdminView,
  ServerView,
  SettingView,
  UserView,
  WorkspaceEntryView,
} from "../../http/admin-views.ts";
export type { QueueEntryView, SuppressionView };

/** One key for all of it, since changes affect each other: a new person may have a mailbox, a removed one had shares. */
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

const of = <T>(name: string) =>
  queryOptions({ queryKey: [...WORKSPACE, name], queryFn: () => ask<T>("GET", `/settings/${name}`) });

export const peopleQuery = of<{ people: UserView[] }>("people");
export const mailboxesSettingsQuery = {
  ...of<MailboxesView>("mailboxes"),
  // A removal takes the server some time.
  refetchInterval: ({ state }: { state: { data?: MailboxesView | undefined } }) =>
    state.data?.mailboxes.some(({ removing }) => removing) ? WHILE_REMOVING_MS : false,
} as const;
export const domainsQuery = of<{ domains: DomainView[] }>("domains");
/** Warns admins of a domain that the workspace has not verified or has lost; undefined for a verified one. */
export function domainWarning({ name, state, takesMail }: DomainView): string | undefined {
  if (state === "verified") return undefined;
  if (state === "lost") {
    return `Another workspace verified ${name}: no mail comes to your addresses there, and none can be sent from them. What is in their mailboxes stays to be read.`;
  }
  return takesMail
    ? `${name} takes mail without being verified, as before, until another workspace verifies it. Publish its records, then verify it.`
    : `Until ${name} is verified no mail comes to its addresses, and none can be sent from them. Publish its records, then verify it.`;
}

export const suppressionsQuery = queryOptions({
  queryKey: [...WORKSPACE, "suppressions"],
  queryFn: () => askAll<SuppressionView>("/settings/suppressions", "suppressions"),
});
/** Only the first page, since a queue may hold millions of entries. */
export const queueQuery = queryOptions({
  queryKey: [...WORKSPACE, "queue"],
  queryFn: () => askPage<QueueEntryView>("/settings/queue", "queue"),
});
export const workspaceQuery = of<WorkspaceView>("workspace");
export const workspacesQuery = of<{ workspaces: WorkspaceEntryView[] }>("workspaces");
export const doctorQuery = {
  ...of<DoctorView>("doctor"),
  refetchInterval: ({ state }: { state: { data?: DoctorView | undefined } }) =>
    state.data?.running ? WHILE_EXAMINING_MS : false,
} as const;
export const serverQuery = of<ServerView>("server");

/** A domain with the present state of its records in DNS. */
export const recordsQuery = (id: string) =>
  queryOptions({
    queryKey: ["settings", "records", id],
    queryFn: () => ask<DomainView>("GET", `/settings/domains/${idOf(id)}/records`),
  });

const box = (id: string, rest = ""): string => `/settings/mailboxes/${idOf(id)}${rest}`;

export const workspaceApi = {
  addPerson: (given: { email: string; name: string; role: string; ownMailbox: boolean; password?: string }) =>
    ask<UserView>("POST", "/settings/people", given),
  changePerson: ({ id, ...change }: { id: string; role?: string; password?: string; keepKeys?: boolean }) =>
    ask<UserView>("PATCH", `/settings/people/${idOf(id)}`, change),
  resetSecondFactor: (id: string) => ask<void>("DELETE", `/settings/people/${idOf(id)}/second-factor`),
  removePerson: (id: string) => ask<void>("DELETE", `/settings/people/${idOf(id)}`),

  addMailbox: (given: { address: string; name: string; owner?: string }) =>
    ask<MailboxAdminView>("POST", "/settings/mailboxes", given),
  changeMailbox: ({
    id,
    ...change
  }: {
    id: string;
    name?: string;
    /** Id of a person. */
    owner?: string | null;
    quotaBytes?: number | null;
    pausedReason?: string | null;
    expiresAt?: string | null;
  }) => ask<MailboxAdminView>("PATCH", box(id), change),
  removeMailbox: (id: string) => ask<void>("DELETE", box(id)),
  addAlias: ({ id, alias }: { id: string; alias: string }) => ask<unknown>("POST", box(id, "/aliases"), { alias }),
  removeAlias: ({ id, alias }: { id: string; alias: string }) =>
    ask<void>("DELETE", box(id, `/aliases/${idOf(alias)}`)),
  share: ({ id, ...given }: { id: string; user: string; access: string }) =>
    ask<unknown>("POST", box(id, "/grants"), given),
  unshare: ({ id, user }: { id: string; user: string }) => ask<void>("DELETE", box(id, `/grants/${idOf(user)}`)),

  addDomain: (name: string) => ask<DomainView>("POST", "/settings/domains", { name }),
  verifyDomain: (id: string) => ask<DomainView>("POST", `/settings/domains/${idOf(id)}/verify`, {}),
  removeDomain: (id: string) => ask<void>("DELETE", `/settings/domains/${idOf(id)}`),

  suppress: (given: { address: string; reason: string }) => ask<void>("POST", "/settings/suppressions", given),
  unsuppress: (id: string) => ask<void>("DELETE", `/settings/suppressions/${idOf(id)}`),
  retry: (id: string) => ask<void>("POST", `/settings/queue/${idOf(id)}/retry`, {}),
  cancel: (id: string) => ask<void>("POST", `/settings/queue/${idOf(id)}/cancel`, {}),

  renameWorkspace: (name: string) => ask<WorkspaceView>("PATCH", "/settings/workspace", { name }),
  addWorkspace: (given: { name: string; domain: string; email: string; owner: string; password: string }) =>
    ask<WorkspaceEntryView>("POST", "/settings/workspaces", given),
  pauseWorkspace: ({ id, pausedReason }: { id: string; pausedReason: string | null }) =>
    ask<WorkspaceEntryView>("PATCH", `/settings/workspaces/${idOf(id)}`, { pausedReason }),

  examine: () => ask<DoctorView>("POST", "/settings/doctor", {}),

  set: ({ name, value }: { name: string; value: string }) =>
    ask<SettingView>("PATCH", `/settings/server/${idOf(name)}`, { value }),
  reset: (name: string) => ask<SettingView>("DELETE", `/settings/server/${idOf(name)}`),
};
