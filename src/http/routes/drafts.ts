/** Writing mail in the app: drafts, their attachments, and sending them now or later. */

import type { People } from "../../admin/people.ts";
import { declaredLength, readParts } from "../../api/body.ts";
import { type Budget, type Count, createUploadBudget } from "../../api/budget.ts";
import { queryOf } from "../../api/target.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Sending } from "../../compose/send.ts";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import { isoOf } from "../../operations/admin/common.ts";
import { t } from "../../operations/json-schema.ts";
import { dateTime, SendRequest } from "../../operations/schemas.ts";
import type { Store } from "../../store/store.ts";
import { FRAME_HEADERS } from "../frame.ts";
import type { Asked, Route } from "../route.ts";
import type { DraftMarkView, SendingPreferences } from "../views.ts";
import { bodyOf, done } from "./asked.ts";
import { readUntil } from "./reading.ts";

export interface DraftRouteParts {
  store: Pick<Store, "db" | "transact">;
  mailbox: Pick<Mailbox, "drafts" | "getThread" | "renewHtml" | "editorOf">;
  sending: Sending;
  people: Pick<People, "setUndoSeconds" | "undoSeconds">;
  runtime: Pick<Runtime, "now">;
  /** Budget for the bytes of request bodies. */
  bodies: Budget;
}

/** Text and HTML of 1 MiB, which JSON may write in six times as many bytes (RFC 8259 §7), and addresses. */
const LARGEST_DRAFT = 8 * 1_048_576;
const LONGEST_FIELD = 100_000;

const field = () => t.String({ maxLength: LONGEST_FIELD });
const draftFields = {
  from: t.String(),
  to: field(),
  cc: t.Optional(field()),
  bcc: t.Optional(field()),
  subject: SendRequest.properties.subject,
  text: t.Optional(t.String()),
  html: t.Optional(t.String()),
};
const readNew = bodyOf(t.Object({ ...draftFields, answers: t.Optional(t.String()) }), LARGEST_DRAFT);
const readChange = bodyOf(t.Object({ ...draftFields, revision: t.Integer() }), LARGEST_DRAFT);
const readSend = bodyOf(
  t.Object({ ...draftFields, revision: t.Integer(), attachments: t.Array(t.String()), at: t.Optional(dateTime()) }),
  LARGEST_DRAFT,
);
const readPreferences = bodyOf(t.Object({ undoSeconds: t.Integer() }));

const created = (body: object): Response => Response.json(body, { status: 201 });
const parameterOf = ({ request }: Asked, name: string): string =>
  new URLSearchParams(queryOf(request.url)).get(name) ?? "";

/** The parts of a body, then the check, since the client decides how long the body takes. */
async function* checkedAtEnd<T>(parts: AsyncIterable<T>, check: () => void): AsyncGenerator<T> {
  yield* parts;
  check();
}

export function draftRoutes(parts: DraftRouteParts): Route[] {
  const { store, mailbox, sending, people, runtime, bodies } = parts;
  const uploads = createUploadBudget();

  /** For a route whose body may be large. */
  const counted =
    (run: (asked: Asked, count: Count) => Promise<unknown>): Route["run"] =>
    (asked) =>
      bodies.within(asked.session.caller.userId, (count) => run(asked, count));

  return [
    {
      // Body as DraftRequest, and {answers}: id of the conversation that it replies to.
      method: "POST",
      path: "/drafts",
      run: counted(async (asked, count) =>
        created(await sending.createDraft(asked.session.caller, await readNew(asked, count))),
      ),
    },
    {
      // ?mailbox=: the mailbox's drafts that a list marks.
      method: "GET",
      path: "/drafts",
      run: (asked): { drafts: DraftMarkView[] } => ({
        drafts: mailbox.drafts
          .marked(asked.session.caller, parameterOf(asked, "mailbox"))
          .map(({ id, agent, dueAt, refusal }) => ({
            draftId: id,
            agent: agent?.key ?? null,
            dueAt: dueAt === null ? null : isoOf(dueAt),
            refused: refusal !== null,
          })),
      }),
    },
    {
      // Has every recipient, Bcc included, if the person may send it.
      method: "GET",
      path: "/drafts/:id",
      run: ({ params: { id = "" }, session }) => sending.openDraft(session.caller, id),
    },
    {
      // Body as DraftRequest, and {revision}: the revision that was opened.
      method: "PATCH",
      path: "/drafts/:id",
      run: counted(async (asked, count) =>
        sending.saveDraft(asked.session.caller, asked.params.id ?? "", await readChange(asked, count)),
      ),
    },
    {
      method: "DELETE",
      path: "/drafts/:id",
      run({ params: { id = "" }, session }) {
        store.transact((tx) => mailbox.drafts.remove(tx, mailbox.drafts.read(session.caller, id)));
        return done();
      },
    },
    {
      // Body as PATCH, and {attachments, at}: the ids on the page, and the time to send it if not now.
      method: "POST",
      path: "/drafts/:id/send",
      run: counted(async (asked, count) => {
        const { at, ...request } = await readSend(asked, count);
        const given = { ...request, ...(at !== undefined && { at: readUntil(at, runtime.now()) }) };
        return sending.sendDraft(asked.session.caller, asked.params.id ?? "", given);
      }),
    },
    {
      method: "POST",
      path: "/drafts/:id/undo",
      async run({ params: { id = "" }, session }) {
        await sending.undoSend(session.caller, id);
        return done();
      },
    },
    {
      // The body is a file, with its media type; ?name= has its name.
      method: "POST",
      path: "/drafts/:id/attachments",
      run(asked) {
        const { request, session, params, requireSession } = asked;
        return uploads.within(session.caller.userId, async (count) => {
          count(1);
          return created(
            await sending.attach(session.caller, params.id ?? "", {
              filename: parameterOf(asked, "name"),
              contentType: request.headers.get("content-type") ?? "",
              size: declaredLength(request),
              content: checkedAtEnd(readParts(request), requireSession),
            }),
          );
        });
      },
    },
    {
      method: "DELETE",
      path: "/drafts/:id/attachments/:attachmentId",
      async run({ params: { id = "", attachmentId = "" }, session }) {
        await sending.detach(session.caller, id, attachmentId);
        return done();
      },
    },
    {
      // The document in which the HTML of a draft is edited.
      method: "GET",
      path: "/drafts/:id/editor",
      async run({ params: { id = "" }, session }) {
        mailbox.drafts.read(session.caller, id);
        await mailbox.renewHtml(id);
        const [message] = mailbox.getThread(session.caller, id, { html: true }).messages;
        const document = await mailbox.editorOf(session.caller, message ?? { attachments: [] });
        return new Response(document, { headers: FRAME_HEADERS });
      },
    },
    {
      // Recipients and quotation of a reply; ?all=true: to everybody.
      method: "GET",
      path: "/threads/:id/answer",
      run: (asked) =>
        sending.answerTo(asked.session.caller, asked.params.id ?? "", { all: parameterOf(asked, "all") === "true" }),
    },
    {
      // Drafts that reply to the conversation.
      method: "GET",
      path: "/threads/:id/drafts",
      run: ({ params: { id = "" }, session }) => ({ drafts: sending.draftsAnswering(session.caller, id) }),
    },
    {
      method: "POST",
      path: "/messages/:id/forward",
      run: async ({ params: { id = "" }, session }) => created(await sending.forward(session.caller, id)),
    },
    {
      method: "GET",
      path: "/me/sending",
      run: ({ session }): SendingPreferences => ({ undoSeconds: people.undoSeconds(session.caller.userId) }),
    },
    {
      // Body {undoSeconds}: 0, 5, 10, 20 or 30.
      method: "PATCH",
      path: "/me/sending",
      async run(asked) {
        const { undoSeconds } = await readPreferences(asked);
        store.transact((tx) => people.setUndoSeconds(tx, asked.session.caller.userId, undoSeconds));
        return done();
      },
    },
  ];
}
