/** Requests to the routes in src/http/routes/reading.ts: changes of several conversations, labels, usage, people, details. */
import { queryOptions } from "@tanstack/react-query";
import type { ClassificationView } from "../../mailbox/junk/classification.ts";
import type { LabelInUse } from "../../mailbox/labels.ts";
import type { BulkResult, Refused } from "../../mailbox/threads.ts";
import type { Usage } from "../../mailbox/usage.ts";
import type { EmailAddress } from "../../message/address.ts";
import type { RecipientProgress } from "../../outbound/progress.ts";
import { ask, idOf } from "./ask.ts";

export type { ClassificationView } from "../../mailbox/junk/classification.ts";
export type { RecipientProgress } from "../../outbound/progress.ts";

/** A change of each of several conversations. */
export interface Change {
  folder?: "inbox" | "archive" | "trash" | "spam";
  unread?: boolean;
  starred?: boolean;
  addLabels?: string[];
  removeLabels?: string[];
  /** ISO 8601. */
  snoozedUntil?: string;
}

export type { Refused };

/** Characters. */
export const LONGEST_LABEL = 60;

export const readingApi = {
  /** At most 100 at once. */
  change: (ids: readonly string[], change: Change) => ask<BulkResult>("POST", "/threads/change", { ids, ...change }),
  undo: (undo: string) => ask<Omit<BulkResult, "undo">>("POST", "/threads/undo", { undo }),
  delete: (ids: readonly string[]) =>
    ask<{ deleted: string[]; refused: Refused[] }>("POST", "/threads/delete", { ids }),
};

const inMailbox = (path: string, mailbox: string, more = "") => `${path}?mailbox=${encodeURIComponent(mailbox)}${more}`;

export const labelsQuery = (mailbox: string | undefined) =>
  queryOptions({
    queryKey: ["labels", mailbox],
    queryFn: async () => (await ask<{ labels: LabelInUse[] }>("GET", inMailbox("/labels", mailbox ?? ""))).labels,
    enabled: mailbox !== undefined,
  });

export const usageQuery = (mailbox: string) =>
  queryOptions({ queryKey: ["usage", mailbox], queryFn: () => ask<Usage>("GET", inMailbox("/usage", mailbox)) });

/** People by the beginning of an address or name. The former result stays until the next one is there. */
export const peopleQuery = (mailbox: string | undefined, text: string | undefined) =>
  queryOptions({
    queryKey: ["people", mailbox, text],
    queryFn: async () =>
      (await ask<{ people: EmailAddress[] }>("GET", inMailbox("/people", mailbox ?? "", `&q=${idOf(text ?? "")}`)))
        .people,
    enabled: mailbox !== undefined && text !== undefined && text !== "",
    staleTime: 60_000,
    placeholderData: (before) => before,
  });

export const judgementQuery = (messageId: string) =>
  queryOptions({
    queryKey: ["judgement", messageId],
    queryFn: () => ask<ClassificationView>("GET", `/messages/${idOf(messageId)}/judgement`),
  });

/** Its key begins with the key of the conversation, so that news of the conversation reload it, too. */
export const progressQuery = (threadId: string, messageId: string) =>
  queryOptions({
    queryKey: ["thread", threadId, "progress", messageId],
    queryFn: async () =>
      (await ask<{ recipients: RecipientProgress[] }>("GET", `/messages/${idOf(messageId)}/progress`)).recipients,
  });
