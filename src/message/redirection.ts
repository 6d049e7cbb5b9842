/** Reads to whom a message asks its readers to answer, or to send receipts, other than to its author. */
import { readAddressEntries } from "./address.ts";

/** Header fields, in lower case, that redirect answers or receipts. */
const REDIRECTING: ReadonlySet<string> = new Set([
  "reply-to",
  "mail-followup-to",
  "mail-reply-to",
  "disposition-notification-to",
  "return-receipt-to",
  "x-confirm-reading-to",
]);

/** True if answers or receipts go where a field of that name says. */
export const isReplyRedirectHeader = (name: string): boolean => REDIRECTING.has(name.toLowerCase());

/**
 * The addresses in the fields of a header, which are still encoded. An entry that is no address is given as it is written:
 * other programs may find one in it.
 */
export const listReplyRedirects = (headers: readonly (readonly [name: string, value: string])[]): string[] =>
  headers.flatMap(([name, value]) => {
    if (!isReplyRedirectHeader(name)) return [];
    return [...readAddressEntries(value)].flatMap(({ addresses, source }) =>
      addresses.length > 0 ? addresses.map(({ email }) => email) : source.trim(),
    );
  });
