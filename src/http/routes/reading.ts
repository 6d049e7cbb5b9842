/**
 * Routes for reading and tidying that only the app has: changes of several conversations and their undo, completions for
 * search, and details of a message.
 */

import { queryOf } from "../../api/target.ts";
import { AppError } from "../../base/errors.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import { t } from "../../operations/json-schema.ts";
import { dateTime, ThreadPatch } from "../../operations/schemas.ts";
import { progressOf, type RecipientProgress } from "../../outbound/progress.ts";
import type { Store } from "../../store/store.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf } from "./asked.ts";

/** Conversations in one request, whose transaction makes all other work wait. */
const MOST_AT_ONCE = 100;
const MOST_LABELS = 500;
const MOST_PEOPLE = 8;
const YEAR_MS = 366 * 86_400_000;

export interface ReadingParts {
  store: Pick<Store, "db">;
  mailbox: Pick<
    Mailbox,
    | "changeThreads"
    | "undoChange"
    | "deleteThreads"
    | "listLabels"
    | "findCorrespondents"
    | "usageFor"
    | "getClassification"
  >;
  runtime: Pick<Runtime, "now">;
  /** Called when a conversation was snoozed, since its time may be the earliest. */
  snoozed(): void;
}

/** Epoch ms of a time in the year to come. @throws AppError bad_request */
export function readUntil(text: string, now: number): number {
  const until = Date.parse(text);
  if (!(until > now && until < now + YEAR_MS)) {
    throw new AppError("bad_request", "until must be a time within the year to come");
  }
  return until;
}

const ids = t.Array(t.String({ maxLength: 100 }), { minItems: 1, maxItems: MOST_AT_ONCE, uniqueItems: true });
const { folder, starred, unread, addLabels, removeLabels } = ThreadPatch.properties;
const readChange = bodyOf(
  t.Object({ ids, folder, starred, unread, addLabels, removeLabels, snoozedUntil: t.Optional(dateTime()) }),
);
const readIds = bodyOf(t.Object({ ids }));
const readUndo = bodyOf(t.Object({ undo: t.String({ maxLength: 100 }) }));

const asked = ({ request }: Asked, name: string): string => new URLSearchParams(queryOf(request.url)).get(name) ?? "";

export function readingRoutes({ store, mailbox, runtime, snoozed }: ReadingParts): Route[] {
  return [
    {
      // Body {ids, and the changes}: conversations that are not changed are in `refused`.
      method: "POST",
      path: "/threads/change",
      async run(request) {
        const { ids, snoozedUntil, ...change } = await readChange(request);
        if (snoozedUntil !== undefined && change.folder !== undefined) {
          throw new AppError("bad_request", "folder and snoozedUntil exclude each other");
        }
        const until = snoozedUntil === undefined ? {} : { snoozedUntil: readUntil(snoozedUntil, runtime.now()) };
        const result = mailbox.changeThreads(request.session.caller, ids, { ...change, ...until });
        if (snoozedUntil !== undefined) snoozed();
        return result;
      },
    },
    {
      method: "POST",
      path: "/threads/undo",
      async run(request) {
        const { undo } = await readUndo(request);
        const result = mailbox.undoChange(request.session.caller, undo);
        snoozed();
        return result;
      },
    },
    {
      // Deletes from trash, spam or drafts for good.
      method: "POST",
      path: "/threads/delete",
      run: async (request) => mailbox.deleteThreads(request.session.caller, (await readIds(request)).ids),
    },
    {
      method: "GET",
      path: "/labels",
      run: (request) => ({
        labels: mailbox.listLabels(request.session.caller, asked(request, "mailbox"), MOST_LABELS),
      }),
    },
    {
      // ?q=: prefix of the address, or of a word of the name.
      method: "GET",
      path: "/people",
      run: (request) => ({
        people: mailbox.findCorrespondents(
          request.session.caller,
          asked(request, "mailbox"),
          asked(request, "q").slice(0, 100),
          MOST_PEOPLE,
        ),
      }),
    },
    {
      method: "GET",
      path: "/usage",
      run: (request) => mailbox.usageFor(request.session.caller, asked(request, "mailbox")),
    },
    {
      method: "GET",
      path: "/messages/:id/judgement",
      run: ({ session, params }) => mailbox.getClassification(session.caller, params.id ?? ""),
    },
    {
      // The delivery of a sent message.
      method: "GET",
      path: "/messages/:id/progress",
      run: ({ session, params }): { recipients: RecipientProgress[] } => ({
        recipients: progressOf(store.db, session.caller, params.id ?? ""),
      }),
    },
  ];
}
