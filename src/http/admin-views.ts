/** What the routes of administration answer; the browser code reads these types too. Times are ISO 8601. */

import type { Finding } from "../doctor/check.ts";
import type { MailboxAdminView } from "../operations/admin/mailboxes.ts";
import type { SettingRow } from "../store/settings.ts";

export type { DomainView } from "../operations/admin/domains.ts";
export type { PersonView as UserView } from "../operations/admin/people.ts";
export type { MailboxAdminView };

/** GET /app/settings/workspace: one's own. */
export interface WorkspaceView {
  id: string;
  name: string;
  /** Why nothing may be sent from it; null while it may. */
  pausedReason: string | null;
  createdAt: string;
  /** Whether its admins have the settings of the server, and the other workspaces. */
  operator: boolean;
}

/** GET /app/settings/workspaces: for the operator. */
export interface WorkspaceEntryView extends Omit<WorkspaceView, "operator"> {
  people: number;
  mailboxes: number;
  domains: string[];
  usedBytes: number;
}

export interface MailboxesView {
  mailboxes: MailboxAdminView[];
  /** Of a mailbox without a quota of its own. */
  defaultQuotaBytes: number;
}

export interface SettingView extends Pick<SettingRow, "name" | "value" | "default" | "description"> {
  /** It is changed at the command line alone. */
  commandLine?: true;
}

export interface ServerView {
  settings: SettingView[];
  /** Who answers searches, and why not the engine that the settings ask for. */
  search: { engine: "fts5" | "meilisearch"; reason?: string };
}

/** An examination of the server, when it was begun. */
export interface LookView {
  at: string;
  findings: Finding[];
}

/** GET /app/settings/doctor: what is known without looking. */
export interface DoctorView {
  /** Under way: how many checks it has, and the names of those that are not through. */
  running: { checks: number; waitingFor: string[] } | null;
  /** What was found last, since the server was started. */
  last: LookView | null;
  /** What the server found when it last looked by itself. */
  daily: LookView | null;
}
