/** Attachments (rules: Attachments). */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { parameter } from "../schemas.ts";

export const getAttachment = operation({
  name: "getAttachment",
  group: "Attachments",
  audience: "key",
  method: "GET",
  path: "/attachments/:id",
  scope: "read",
  summary: "Download an attachment",
  params: t.Object({ id: parameter.id }),
  success: 200,
  response: { mediaType: "*/*", description: "The bytes, with the attachment's own content type, as a download" },
  errors: [401, 403, 404, 429],
  run: ({ caller, mailbox }, { params }) => mailbox.getAttachment(caller, params.id),
});
