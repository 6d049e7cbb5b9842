/** A recipient of a message that is being sent, with the header field it stands in. */
import { type EmailAddress, normalizeAddress } from "../message/address.ts";
import { RECIPIENT_FIELDS, type RecipientField } from "../store/schema.ts";

/** `email`: the local part as typed, the domain in A-labels. */
export type Recipient = EmailAddress & { field: RecipientField };

/** Each address once, however it is spelled: of those who stand in several fields the first of To, Cc, Bcc counts. */
export function recipientsOf(fields: Readonly<Record<RecipientField, readonly EmailAddress[]>>): Recipient[] {
  const byAddress = new Map<string, Recipient>();
  for (const field of RECIPIENT_FIELDS) {
    for (const address of fields[field]) {
      const key = normalizeAddress(address.email) ?? address.email;
      if (!byAddress.has(key)) byAddress.set(key, { ...address, field });
    }
  }
  return [...byAddress.values()];
}
