/** Parts of a message that requests, answers and events have. */
import { email, type Static, t } from "../base/json-schema.ts";

/** An address with the display name it came with (rules: Address fields). */
export const EmailAddress = t.Object({ email: email(), name: t.Optional(t.String()) }, { $id: "EmailAddress" });
export type EmailAddress = Static<typeof EmailAddress>;
