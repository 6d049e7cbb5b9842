/** Attachments (rules: Attachments). */
import { t } from "../json-schema.ts";
import { operation } from "../operation.ts";
import { parameter } from "../schemas.ts";
import { GO_ON, maxChars, offset, READS_MAIL, TOTAL } from "../tool.ts";

export const getAttachment = operation({
  name: "getAttachment",
  group: "Attachments",
  audience: "key",
  method: "GET",
  path: "/attachments/:id",
  scope: "read",
  summary: "Download an attachment",
  params: t.Object({ id: parameter.id }),
  tool: {
    description: "An attachment: text, or a small file embedded, else a URL to GET with your API key.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: {
      filename: "string",
      contentType: "string",
      size: "integer",
      url: "string",
      text: "string",
      nextOffset: "integer",
    },
  },
  success: 200,
  response: { mediaType: "*/*", description: "The bytes, with the attachment's own content type, as a download" },
  errors: [401, 403, 404, 429],
  run: ({ caller, mailbox }, { params }) => mailbox.getAttachment(caller, params.id),
});
