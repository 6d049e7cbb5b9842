/**
 * Mail, for somebody in a browser: every operation of the API under /app instead of /api/v1, performed by the same
 * functions (operations/perform.ts), and emptying trash and spam, which the app alone has.
 */
import { readJson } from "../../api/body.ts";
import { answerDownload } from "../../api/download.ts";
import type { Serving } from "../../api/rest.ts";
import { queryOf } from "../../api/target.ts";
import { t } from "../../operations/json-schema.ts";
import { type Download, isMediaType, type Operation } from "../../operations/operation.ts";
import { MAIL_OPERATIONS } from "../../operations/operations.ts";
import { performerOf } from "../../operations/perform.ts";
import { readQuery } from "../../operations/shape.ts";
import type { Route } from "../route.ts";
import { bodyOf } from "./asked.ts";

/** Of an operation that does not say. */
const MOST_BODY_BYTES = 1_048_576;

function routeOf(operation: Operation, performing: Serving): Route {
  const { method, path, query, body, largestBody = MOST_BODY_BYTES } = operation;
  const perform = performerOf(operation, performing);
  return {
    method,
    path,
    async run({ request, params, session, requireSession }) {
      const { status, answer } = await performing.bodies.within(session.caller.userId, (count) =>
        perform(session.caller, async () => {
          const given = body && (await readJson(request, largestBody, count));
          requireSession();
          return { params, query: readQuery(queryOf(request.url), query), body: given };
        }),
      );
      if (isMediaType(operation.response)) return answerDownload(answer as Download);
      return Response.json(answer, { status });
    },
  };
}

const readEmpty = bodyOf(t.Object({ mailbox: t.String() }), MOST_BODY_BYTES);

export function mailRoutes(parts: Serving): Route[] {
  const { mailbox } = parts;

  return [
    ...MAIL_OPERATIONS.map((operation) => routeOf(operation, parts)),
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
