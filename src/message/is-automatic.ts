/**
 * Tells mail that programs must not answer (RFC 3834 §2): that of programs, of mailing lists, and of addresses behind which
 * nobody reads. Pure.
 */
import { splitAddress } from "./address.ts";

type Headers = readonly (readonly [name: string, value: string])[];

function has(headers: Headers, name: string, value: RegExp): boolean {
  return headers.some(([field, text]) => field.toLowerCase() === name && value.test(text.trim()));
}

/** A program wrote the message in answer to another: to pass it on, or to answer it, may go on for ever. */
export const isAutomaticReply = (headers: Headers): boolean =>
  has(headers, "auto-submitted", /^auto-(?:replied|notified)\b/i);

/** A program sent the message (RFC 3834 §5). */
export const isAutoSubmitted = (headers: Headers): boolean => has(headers, "auto-submitted", /^(?!no\b)./i);

const OF_NOBODY =
  /^(?:owner-.*|.*-(?:owner|request|bounces?)|mailer-daemon|postmaster|listserv|majordomo|(?:.*[-_.])?(?:no|do-?not)[-_.]?reply(?:[-_.+].*)?)$/i;

/** `addresses`: the return path and the author. */
export const mayBeAnswered = (headers: Headers, addresses: readonly string[]): boolean =>
  !(
    addresses.some((address) => OF_NOBODY.test(splitAddress(address).local)) ||
    headers.some(([name]) => /^list-/i.test(name)) ||
    isAutoSubmitted(headers) ||
    has(headers, "x-autoreply", /^(?!no\b)/i) ||
    has(headers, "x-autorespond", /^(?!no\b)/i) ||
    has(headers, "precedence", /^(?:bulk|list|junk|auto_reply)\b/i) ||
    // Microsoft's word for the same.
    has(headers, "x-auto-response-suppress", /\b(?:oof|all|autoreply)\b/i)
  );
