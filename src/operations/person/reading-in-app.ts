/**
 * Reading and tidying that only the app has: changes of several conversations and their undo, emptying, completions for
 * search, and details of a message.
 */
import { AppError } from "../../base/errors.ts";
import { dateTimeSchema, t } from "../../base/json-schema.ts";
import { findApprover } from "../../mailbox/changing/holds.ts";
import * as conversations from "../../mailbox/changing/threads.ts";
import * as mail from "../../mailbox/reading/messages.ts";
import * as suggestions from "../../mailbox/reading/suggestions.ts";
import { reachedMailbox, readMailboxUsage } from "../../mailbox/state/mailboxes.ts";
import { ThreadPatch } from "../../mailbox/state/views.ts";
import { listRecipientProgress } from "../../outbound/progress.ts";
import { MOST_AT_ONCE } from "../mail/thread-operations.ts";
import { defineAppOperation } from "../operation.ts";
import { BY_ID, readTimeInComingYear } from "../shared-schemas.ts";

const MOST_PEOPLE = 8;
const LONGEST_PREFIX = 100;

const ids = t.Array(t.String({ maxLength: 100 }), { minItems: 1, maxItems: MOST_AT_ONCE, uniqueItems: true });
const { folder, starred, unread, addLabels, removeLabels } = ThreadPatch.properties;
/** Id, address or alias address. */
const IN_MAILBOX = t.Object({ mailbox: t.String() });

/** Answers with the conversations that it did not change in `refused`. */
export const changeThreads = defineAppOperation({
  name: "changeThreads",
  audience: "person",
  method: "POST",
  path: "/threads/change",
  body: t.Object({ ids, folder, starred, unread, addLabels, removeLabels, snoozedUntil: t.Optional(dateTimeSchema()) }),
  run({ caller, core }, { body: { ids, snoozedUntil, ...change } }) {
    if (snoozedUntil !== undefined && change.folder !== undefined) {
      throw new AppError("bad_request", "folder and snoozedUntil exclude each other");
    }
    const until =
      snoozedUntil === undefined
        ? {}
        : { snoozedUntil: readTimeInComingYear("snoozedUntil", snoozedUntil, core.now()) };
    const result = conversations.changeThreads(core, caller, ids, { ...change, ...until });
    if (snoozedUntil !== undefined) core.wake("wake-snoozed");
    return result;
  },
});

export const undoChange = defineAppOperation({
  name: "undoChange",
  audience: "person",
  method: "POST",
  path: "/threads/undo",
  body: t.Object({ undo: t.String({ maxLength: 100 }) }),
  run({ caller, core }, { body: { undo } }) {
    const result = conversations.undoChange(core, caller, undo);
    core.wake("wake-snoozed");
    return result;
  },
});

/** Deletes from trash, spam or drafts for good. */
export const deleteThreads = defineAppOperation({
  name: "deleteThreads",
  audience: "person",
  method: "POST",
  path: "/threads/delete",
  body: t.Object({ ids }),
  run: ({ caller, core }, { body }) => conversations.deleteThreads(core, caller, body.ids),
});

export const emptyTrash = defineAppOperation({
  name: "emptyTrash",
  audience: "person",
  method: "POST",
  path: "/trash/empty",
  body: IN_MAILBOX,
  run: async ({ caller, core }, { body }) => ({
    deleted: await conversations.emptyFolder(core, caller, body.mailbox, "trash"),
  }),
});

export const emptySpam = defineAppOperation({
  name: "emptySpam",
  audience: "person",
  method: "POST",
  path: "/spam/empty",
  body: IN_MAILBOX,
  run: async ({ caller, core }, { body }) => ({
    deleted: await conversations.emptyFolder(core, caller, body.mailbox, "spam"),
  }),
});

/** `q`: prefix of the address, or of a word of the name. */
export const findCorrespondents = defineAppOperation({
  name: "findCorrespondents",
  audience: "person",
  method: "GET",
  path: "/people",
  query: t.Object({ mailbox: t.String(), q: t.Optional(t.String()) }),
  run: async ({ caller, core }, { query: { mailbox, q = "" } }) => ({
    people: await suggestions.findCorrespondents(core, caller, {
      mailbox,
      text: q.slice(0, LONGEST_PREFIX),
      limit: MOST_PEOPLE,
    }),
  }),
});

export const getUsage = defineAppOperation({
  name: "getUsage",
  audience: "person",
  method: "GET",
  path: "/usage",
  query: IN_MAILBOX,
  run: ({ caller, core }, { query }) => readMailboxUsage(core, reachedMailbox(core.db, caller, query.mailbox)),
});

export const getClassification = defineAppOperation({
  name: "getClassification",
  audience: "person",
  method: "GET",
  path: "/messages/:id/judgement",
  params: BY_ID,
  run: ({ caller, core }, { params }) => mail.getClassification(core, caller, params.id),
});

/** The delivery of a sent message, and who approved it if it was held. */
export const getProgress = defineAppOperation({
  name: "getProgress",
  audience: "person",
  method: "GET",
  path: "/messages/:id/progress",
  params: BY_ID,
  run: ({ core, caller }, { params }) => ({
    recipients: listRecipientProgress(core.db, caller, params.id),
    approver: findApprover(core.db, params.id) ?? null,
  }),
});
