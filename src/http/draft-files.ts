/** The files of a draft: uploads of attachments, and the document in which its HTML is edited. */
import type { Pools } from "../api/pools.ts";
import { declaredBodyLength, readBodyParts, urlQuery } from "../api/request.ts";
import { attachToDraft } from "../compose/write-drafts.ts";
import { readDraft } from "../mailbox/changing/drafts.ts";
import { getThread } from "../mailbox/changing/threads.ts";
import { renderDraftEditor, renewSanitizedHtml } from "../mailbox/reading/stored-html.ts";
import { APP_ROUTES } from "../operations/app-routes.ts";
import type { AppServices } from "../operations/operation.ts";
import { FRAME_HEADERS } from "./frame-responses.ts";
import type { Route } from "./route.ts";

/** The parts of a body, then the check, since the client decides how long the body takes. */
async function* checkedAtEnd<T>(parts: AsyncIterable<T>, check: () => void): AsyncGenerator<T> {
  yield* parts;
  check();
}

export function draftFileRoutes(core: AppServices["core"], uploads: Pools["uploads"]): Route[] {
  return [
    {
      ...APP_ROUTES.attachFile,
      run({ request, session, params: { id = "" }, requireSession }) {
        return uploads.within(session.caller, async (count) => {
          count(1);
          const saved = await attachToDraft(core, session.caller, id, {
            filename: new URLSearchParams(urlQuery(request.url)).get("name") ?? "",
            contentType: request.headers.get("content-type") ?? "",
            size: declaredBodyLength(request),
            content: checkedAtEnd(readBodyParts(request), requireSession),
          });
          return Response.json(saved, { status: 201 });
        });
      },
    },
    {
      ...APP_ROUTES.editDraft,
      async run({ params: { id = "" }, session }) {
        readDraft(core.db, session.caller, id);
        await renewSanitizedHtml(core, id);
        const [message] = getThread(core, session.caller, id, { html: true }).messages;
        const document = await renderDraftEditor(core, session.caller, message ?? { attachments: [] });
        return new Response(document, { headers: FRAME_HEADERS });
      },
    },
  ];
}
