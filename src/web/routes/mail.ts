/**
 * Mail, for somebody in a browser: every operation of the API under /app instead of /api/v1, performed by the same
 * functions (api/perform.ts), and what the app alone has: snoozing and deleting for good.
 */
import { readJson } from "../../api/body.ts";
import { answerDownload } from "../../api/download.ts";
import { t } from "../../api/json-schema.ts";
import { type Download, isMediaType, type Operation } from "../../api/operation.ts";
import { OPERATIONS } from "../../api/operations/all.ts";
import { type Performing, performerOf } from "../../api/perform.ts";
import { dateTime, SendRequest } from "../../api/schemas.ts";
import { readQuery } from "../../api/shape.ts";
import { queryOf } from "../../api/target.ts";
import type { DraftRequest } from "../../mta/drafts.ts";
import type { Sending } from "../../mta/sending.ts";
import type { Runtime } from "../../runtime.ts";
import type { Asked, Route } from "../route.ts";
import { bodyOf, done } from "./asked.ts";
import { readUntil } from "./reading.ts";

/** Of an operation that does not say. */
const MOST_BODY_BYTES = 1_048_576;
/** JSON may write a text of 1 MiB in six times as many bytes (RFC 8259 §7). */
const LARGEST_LETTER = 8 * MOST_BODY_BYTES;

export interface MailParts extends Performing {
  sending: Sending;
  runtime: Pick<Runtime, "now">;
  /** A conversation was snoozed: something may be due sooner than was known. */
  snoozed(): void;
}

function routeOf(operation: Operation, performing: Performing): Route {
  const { method, path, query, body, largestBody = MOST_BODY_BYTES } = operation;
  const perform = performerOf(operation, performing);
  return {
    method,
    path,
    async run({ request, params, session }) {
      const { status, answer } = await perform(session.caller, async () => ({
        params,
        query: readQuery(queryOf(request.url), query),
        body: body && (await readJson(request, largestBody)),
      }));
      if (isMediaType(operation.response)) return answerDownload(answer as Download);
      return Response.json(answer, { status });
    },
  };
}

/** As spec: SendRequest, of text alone. */
const { from, to, cc, bcc, subject } = SendRequest.properties;
const readDraftRequest: (asked: Asked) => Promise<DraftRequest> = bodyOf(
  t.Object({ from, to, cc, bcc, subject, text: t.String() }),
  LARGEST_LETTER,
);

const readSnooze = bodyOf(t.Object({ until: dateTime() }), MOST_BODY_BYTES);
const readEmpty = bodyOf(t.Object({ mailbox: t.String() }), MOST_BODY_BYTES);

export function mailRoutes(parts: MailParts): Route[] {
  const { mailbox, sending, runtime, snoozed } = parts;

  return [
    ...OPERATIONS.map((operation) => routeOf(operation, parts)),
    {
      // Body {until}: ISO 8601. PATCH folder "inbox" takes it back.
      method: "POST",
      path: "/threads/:id/snooze",
      async run(asked) {
        const { until } = await readSnooze(asked);
        const thread = mailbox.snoozeFor(asked.session.caller, asked.params.id ?? "", readUntil(until, runtime.now()));
        snoozed();
        return { thread };
      },
    },
    {
      // Whom an answer would go to; ?all=true: one to everybody.
      method: "GET",
      path: "/threads/:id/answer",
      run: ({ request, params: { id = "" }, session }) =>
        sending.answerTo(session.caller, id, { all: new URLSearchParams(queryOf(request.url)).get("all") === "true" }),
    },
    {
      // With every recipient, for who may send it.
      method: "GET",
      path: "/drafts/:id",
      run: ({ params: { id = "" }, session }) => sending.openDraft(session.caller, id),
    },
    {
      method: "PATCH",
      path: "/drafts/:id",
      run: async (asked) =>
        sending.saveDraft(asked.session.caller, asked.params.id ?? "", await readDraftRequest(asked)),
    },
    {
      method: "POST",
      path: "/drafts/:id/send",
      run: async (asked) =>
        sending.sendDraft(asked.session.caller, asked.params.id ?? "", await readDraftRequest(asked)),
    },
    {
      // For good: of trash, spam, or a draft.
      method: "DELETE",
      path: "/threads/:id",
      run({ params: { id = "" }, session }) {
        mailbox.deleteThread(session.caller, id);
        return done();
      },
    },
    ...(["trash", "spam"] as const).map(
      (folder): Route => ({
        // Body {mailbox}: id, address or alias address.
        method: "POST",
        path: `/${folder}/empty`,
        async run(asked) {
          const { mailbox: of } = await readEmpty(asked);
          return { deleted: await mailbox.emptyFolder(asked.session.caller, of, folder) };
        },
      }),
    ),
  ];
}
