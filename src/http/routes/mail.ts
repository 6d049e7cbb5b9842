/** Mail routes of the app: every operation of the mail API, and emptying trash and spam, which only the app has. */
import type { Serving } from "../../api/rest.ts";
import { t } from "../../operations/json-schema.ts";
import { MAIL_OPERATIONS } from "../../operations/operations.ts";
import type { Route } from "../route.ts";
import { bodyOf } from "./asked.ts";
import { operationRoute } from "./operation-route.ts";

const readEmpty = bodyOf(t.Object({ mailbox: t.String() }));

export function mailRoutes(parts: Serving): Route[] {
  const { mailbox } = parts;

  return [
    ...MAIL_OPERATIONS.map((operation) => operationRoute(operation, parts)),
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
