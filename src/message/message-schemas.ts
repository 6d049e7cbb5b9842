/** Parts of a message that requests, answers and events have. */
import { emailSchema, type Static, t } from "../base/json-schema.ts";

/** An address with the display name it came with (rules: Address fields). */
export const EmailAddress = t.Object({ email: emailSchema(), name: t.Optional(t.String()) }, { $id: "EmailAddress" });
export type EmailAddress = Static<typeof EmailAddress>;

/** How to leave the list of a message (RFC 2369). */
export const ListUnsubscribe = t.Object(
  {
    urls: t.Array(t.String(), { description: "https: and mailto: URLs of List-Unsubscribe (RFC 2369)" }),
    oneClick: t.Boolean({ description: "Its https: URL takes a POST by itself (RFC 8058)" }),
  },
  { description: "How to leave the list that it came by, as its sender says. For a person to press" },
);
export type ListUnsubscribe = Static<typeof ListUnsubscribe>;
