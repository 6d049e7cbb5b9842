/** Queries of a workspace that is administered: people, mailboxes, outbound mail, the server's settings. */
import { queryOptions } from "@tanstack/react-query";
import { type Answer, api, fetchAllPages, MOST_OF_A_PAGE } from "../../lib/api-client.ts";
import { sortedBy, WORKSPACE } from "../../lib/queries.ts";

export type PersonView = Answer<"listPeople">["people"][number];
export type LockedView = Answer<"lockPerson">;
export type WorkspaceMailboxView = Answer<"listWorkspaceMailboxes">["mailboxes"][number];
export type DomainView = Answer<"getDomain">;
export type SuppressionView = Answer<"addSuppression">;
export type QueueEntryView = Answer<"listQueue">["queue"][number];
export type WorkspaceEntryView = Answer<"addWorkspace">;
export type ServerView = Answer<"getServer">;
export type SettingView = ServerView["settings"][number];
export type DoctorView = Answer<"getFindings">;
export type LookView = NonNullable<DoctorView["last"]>;

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

/** People of the workspace, sorted by address. */
export const peopleQuery = querying("people", async () =>
  sortedBy(await fetchAllPages(api.listPeople, "people"), ({ email }) => email),
);
/** Mailboxes of the workspace, sorted by address. */
export const mailboxesSettingsQuery = {
  ...querying("mailboxes", async () =>
    sortedBy(await fetchAllPages(api.listWorkspaceMailboxes, "mailboxes"), ({ address }) => address),
  ),
  // A removal takes the server some time.
  refetchInterval: ({ state }: { state: { data?: WorkspaceMailboxView[] | undefined } }) =>
    state.data?.some(({ removing }) => removing) ? WHILE_REMOVING_MS : false,
} as const;

export const suppressionsQuery = querying("suppressions", () => fetchAllPages(api.listSuppressions, "suppressions"));
/** Only the first page, since a queue may hold millions of entries. */
export const queueQuery = querying("queue", () => api.listQueue({ limit: MOST_OF_A_PAGE }));
export const workspaceQuery = querying("workspace", () => api.getWorkspace());
export const workspacesQuery = querying("workspaces", () => api.listWorkspaces());
export const doctorQuery = {
  ...querying("doctor", () => api.getFindings()),
  refetchInterval: ({ state }: { state: { data?: DoctorView | undefined } }) =>
    state.data?.running ? WHILE_EXAMINING_MS : false,
} as const;
export const serverQuery = querying("server", () => api.getServer());

/** A domain with the present state of its records in DNS. */
export const dnsRecordsQuery = (id: string) =>
  queryOptions({
    queryKey: ["settings", "records", id],
    queryFn: () => api.getDomain({ id }),
  });
