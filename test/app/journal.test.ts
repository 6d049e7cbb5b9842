/** The journal of a key and its undo, in the words of the app. */
import { expect, test } from "bun:test";
import { groupUndoneByThread, journalSentence, listReasonsNotUndone } from "../../src/app/lib/journal-words.ts";
import type { JournalEntryView } from "../../src/app/pages/settings/settings-developers.ts";

const entry = (given: Partial<JournalEntryView>): JournalEntryView => ({
  ...{ id: "1", at: "2026-01-05T09:00:00.000Z", kind: "changed", userId: null, operation: "updateThread" },
  ...{ face: "rest", client: null, source: null, ids: [], outcome: "ok", reads: null },
  ...{ changes: 0, recipients: 0, sent: 0 },
  ...given,
});

const SAID: [given: Partial<JournalEntryView>, sentence: string][] = [
  [{ changes: 1 }, "Changed a conversation."],
  [{ operation: "updateThreads", changes: 3 }, "Changed 3 conversations."],
  [{ operation: "draftReply" }, "Drafted a reply."],
  [{ operation: "addWebhook" }, "AddWebhook."],
  [{ kind: "read", operation: "searchMail", reads: 1 }, "Searched."],
  [{ kind: "read", operation: "getMessage", reads: 12 }, "Read messages 12 times."],
  [{ kind: "sent", operation: "sendEmail", recipients: 2, sent: 2 }, "Sent a message to 2 recipients."],
  [{ kind: "sent", outcome: "held", recipients: 1 }, "A message to 1 recipient waits for approval."],
  [{ kind: "sent", operation: "sendEmail", recipients: 1 }, "Scheduled a message to 1 recipient."],
  [{ kind: "sent", operation: "approve", sent: 1 }, "One of its messages was approved, and went to 1 recipient."],
  [
    { kind: "refused", operation: "sendEmail", outcome: "forbidden" },
    "Would have sent a message, but its policy does not allow it.",
  ],
  [
    { kind: "refused", operation: "draftReply", outcome: "conflict" },
    "Would have drafted a reply, but was refused (conflict).",
  ],
  [{ operation: "undo", changes: 2 }, "Its changes were undone, of 2 conversations."],
];
test.each(SAID)("%o reads as a sentence", (given, sentence) => {
  expect(journalSentence(entry(given))).toBe(sentence);
});

test("what an undo leaves is told by reason, and how much is not listed", () => {
  const left = [
    { threadId: "t1", field: "starred", reason: "person" },
    { threadId: "t2", field: "folder", reason: "person" },
    { threadId: "t2", field: "label", label: "x", reason: "deleted" },
  ] as const;
  expect(listReasonsNotUndone({ left: [...left], leftChanges: 5 })).toEqual([
    "2 changes: a person changed or confirmed it since",
    "1 change: the conversation was deleted",
    "2 more",
  ]);
  expect(listReasonsNotUndone({ left: [], leftChanges: 0 })).toEqual([]);
});

test("what it takes back is told by conversation", () => {
  expect(
    groupUndoneByThread([
      { threadId: "t1", field: "folder" },
      { threadId: "t2", field: "unread" },
      { threadId: "t1", field: "label", label: "Bills" },
    ]),
  ).toEqual([
    ["t1", ["folder", "the label “Bills”"]],
    ["t2", ["read mark"]],
  ]);
});
