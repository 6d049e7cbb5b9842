/** The journal of an API key, and what its undo does, in plain words. Pure. */

import type { JournalEntryView, UndoView } from "../pages/settings/settings-developers.ts";
import { formatCount } from "./format.ts";

/** Deeds of operations, by their names, in words for people. */
const DEEDS: Readonly<Record<string, string>> = {
  updateThread: "changed a conversation",
  updateThreads: "changed conversations",
  snoozeThread: "snoozed a conversation",
  createLabel: "made a label",
  renameLabel: "renamed a label",
  deleteLabel: "removed a label",
  draftReply: "drafted a reply",
  createDraft: "wrote a draft",
  updateDraft: "changed a draft",
  deleteDraft: "discarded a draft",
  listMailboxes: "listed mailboxes",
  listThreads: "listed conversations",
  listMessages: "listed messages",
  listChanges: "checked for changes",
  listLabels: "listed labels",
  listDeliveries: "checked deliveries",
  getThread: "read conversations",
  getMessage: "read messages",
  getRawMessage: "read messages as files",
  getOriginal: "read original messages",
  getAttachment: "read attachments",
  getDraft: "read drafts",
  searchMail: "searched",
  sendEmail: "sent a message",
  sendDraft: "sent a draft",
  replyToThread: "replied",
  undo: "its changes were undone",
  approve: "one of its messages was approved",
};

const REFUSALS: Readonly<Record<string, string>> = {
  forbidden: "its policy does not allow it",
  rate_limited: "it reached a limit of its policy",
};

const describeOperation = (operation: string): string => DEEDS[operation] ?? operation;

/** A sentence for an entry. */
export function journalSentence(entry: JournalEntryView): string {
  const text = describeJournalEntry(entry);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function describeJournalEntry({
  kind,
  operation,
  outcome,
  reads,
  changes,
  recipients,
  sent,
}: JournalEntryView): string {
  const to = (count: number) => formatCount(count, "recipient");
  const described = describeOperation(operation);
  if (kind === "read") return reads === null || reads === 1 ? described : `${described} ${reads} times`;
  if (kind === "refused") return `would have ${described}, but ${REFUSALS[outcome] ?? `was refused (${outcome})`}`;
  if (operation === "undo") return changes > 0 ? `${described}, of ${formatCount(changes, "conversation")}` : described;
  if (operation === "approve") return sent > 0 ? `${described}, and went to ${to(sent)}` : described;
  if (outcome === "held") return `a message to ${to(recipients)} waits for approval`;
  if (sent > 0) return `sent a message to ${to(sent)}`;
  if (recipients > 0) return `scheduled a message to ${to(recipients)}`;
  return changes > 1 ? `changed ${formatCount(changes, "conversation")}` : described;
}

type UndoneField = UndoView["fields"][number];

/** Fields that have another name for people. */
const FIELDS: Readonly<Partial<Record<UndoneField["field"], string>>> = {
  starred: "star",
  unread: "read mark",
  training: "what the spam filter learned",
};

const fieldName = ({ field, label }: UndoneField): string =>
  field === "label" && label !== undefined ? `the label “${label}”` : (FIELDS[field] ?? field);

/** The fields of each conversation, in the order in which the conversations come. */
export function groupUndoneByThread(fields: readonly UndoneField[]): [threadId: string, fields: string[]][] {
  const found = new Map<string, string[]>();
  for (const field of fields) found.set(field.threadId, [...(found.get(field.threadId) ?? []), fieldName(field)]);
  return [...found];
}

const REASONS: Readonly<Record<UndoView["left"][number]["reason"], string>> = {
  person: "a person changed or confirmed it since",
  key: "another key changed or confirmed it since",
  mail: "new mail changed it since",
  server: "the server changed it since",
  deleted: "the conversation was deleted",
  out_of_reach: "you have no access to its mailbox",
  too_many_labels: "the conversation has too many labels",
};

/** The changes that an undo left as they are: a line for each reason. */
export function listReasonsNotUndone({ left, leftChanges }: Pick<UndoView, "left" | "leftChanges">): string[] {
  const counts = new Map<string, number>();
  for (const { reason } of left) counts.set(REASONS[reason], (counts.get(REASONS[reason]) ?? 0) + 1);
  const lines = [...counts].map(([reason, count]) => `${formatCount(count, "change")}: ${reason}`);
  return leftChanges > left.length ? [...lines, `${leftChanges - left.length} more`] : lines;
}
