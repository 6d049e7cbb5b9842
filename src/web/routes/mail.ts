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
import { dateTime } from "../../api/schemas.ts";
import { readQuery } from "../../api/shape.ts";
import { queryOf } from "../../api/target.ts";
import type { Runtime } from "../../runtime.ts";
import type { Route } from "../route.ts";
import { bodyOf, done } from "./asked.ts";
import { readUntil } from "./reading.ts";

/** Of an operation that does not say. */
const MOST_BODY_BYTES = 1_048_576;

export interface MailParts extends Performing {
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

const readSnooze = bodyOf(t.Object({ until: dateTime() }), MOST_BODY_BYTES);
const readEmpty = bodyOf(t.Object({ mailbox: t.String() }), MOST_BODY_BYTES);

export function mailRoutes(parts: MailParts): Route[] {
  const { mailbox, runtime, snoozed } = parts;

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
