import type { ParsedMessage } from "../../../src/message/parse.ts";

/** A parsed message without the places of its texts and attachments, which are others once it is composed anew. */
export const withoutSources = <M extends Pick<ParsedMessage, "attachments" | "textStart" | "htmlStart">>({
  textStart: _,
  htmlStart: __,
  ...message
}: M) => ({
  ...message,
  attachments: message.attachments.map(({ source: _, ...attachment }) => attachment),
});
