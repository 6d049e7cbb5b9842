/** Asking the server for what runs a workspace: people, mailboxes, domains, outbound mail, the server's settings. */
import { queryOptions } from "@tanstack/react-query";
import type {
  DomainView,
  MailboxAdminView,
  MailboxesView,
  QueueView,
  SettingView,
  SuppressionView,
  UserView,
} from "../../admin-views.ts";
import { ask, idOf } from "./ask.ts";

export type { DomainView, MailboxAdminView, QueueEntryView, SettingView, UserView } from "../../admin-views.ts";

/** What any of it makes doubtful: a person who is added may have a mailbox, one who leaves had shares. */
export const WORKSPACE = ["settings", "workspace"] as const;

export const ROLES = ["member", "admin", "owner"] as const;
export const SHARES = ["view", "send", "full"] as const;

const of = <T>(name: string) =>
  queryOptions({ queryKey: [...WORKSPACE, name], queryFn: () => ask<T>("GET", `/settings/${name}`) });

export const peopleQuery = of<{ people: UserView[] }>("people");
export const mailboxesSettingsQuery = of<MailboxesView>("mailboxes");
export const domainsQuery = of<{ domains: DomainView[] }>("domains");
export const suppressionsQuery = of<{ suppressions: SuppressionView[] }>("suppressions");
export const queueQuery = of<QueueView>("queue");
export const serverQuery = of<{ settings: SettingView[] }>("server");

/** A domain with its records as the world sees them now; it is verified by being looked at. */
export const recordsQuery = (id: string) =>
  queryOptions({
    queryKey: ["settings", "records", id],
    queryFn: () => ask<DomainView>("POST", `/settings/domains/${idOf(id)}/verify`, {}),
  });

const box = (id: string, rest = ""): string => `/settings/mailboxes/${idOf(id)}${rest}`;

export const workspaceApi = {
  addPerson: (given: { email: string; name: string; role: string; ownMailbox: boolean; password?: string }) =>
    ask<UserView>("POST", "/settings/people", given),
  changePerson: ({ id, ...change }: { id: string; role?: string; password?: string }) =>
    ask<UserView>("PATCH", `/settings/people/${idOf(id)}`, change),
  resetSecondFactor: (id: string) => ask<void>("DELETE", `/settings/people/${idOf(id)}/second-factor`),
  removePerson: (id: string) => ask<void>("DELETE", `/settings/people/${idOf(id)}`),

  addMailbox: (given: { address: string; name: string; owner?: string }) =>
    ask<MailboxAdminView>("POST", "/settings/mailboxes", given),
  changeMailbox: ({ id, ...change }: { id: string; quotaBytes?: number | null; pausedReason?: string | null }) =>
    ask<MailboxAdminView>("PATCH", box(id), change),
  addAlias: ({ id, alias }: { id: string; alias: string }) => ask<unknown>("POST", box(id, "/aliases"), { alias }),
  removeAlias: ({ id, alias }: { id: string; alias: string }) =>
    ask<void>("DELETE", box(id, `/aliases/${idOf(alias)}`)),
  share: ({ id, ...given }: { id: string; user: string; access: string }) =>
    ask<unknown>("POST", box(id, "/grants"), given),
  unshare: ({ id, user }: { id: string; user: string }) => ask<void>("DELETE", box(id, `/grants/${idOf(user)}`)),

  addDomain: (name: string) => ask<DomainView>("POST", "/settings/domains", { name }),
  removeDomain: (id: string) => ask<void>("DELETE", `/settings/domains/${idOf(id)}`),

  suppress: (given: { address: string; reason: string }) => ask<void>("POST", "/settings/suppressions", given),
  unsuppress: (address: string) => ask<void>("DELETE", `/settings/suppressions/${idOf(address)}`),
  retry: (id: string) => ask<void>("POST", `/settings/queue/${idOf(id)}/retry`, {}),
  cancel: (id: string) => ask<void>("POST", `/settings/queue/${idOf(id)}/cancel`, {}),

  set: ({ name, value }: { name: string; value: string }) =>
    ask<SettingView>("PATCH", `/settings/server/${idOf(name)}`, { value }),
  reset: (name: string) => ask<SettingView>("DELETE", `/settings/server/${idOf(name)}`),
};
