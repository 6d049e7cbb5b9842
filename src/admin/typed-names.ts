/**
 * Reads what people type: display names, domains, addresses, reasons. Each function returns the form that is stored, or
 * throws an error that says what to give.
 */
import { AppError } from "../base/errors.ts";
import { normalizeAddress, normalizeMailDomain } from "../message/address.ts";

const LONGEST_NAME = 120;
const LONGEST_REASON = 500;

/** Quotes typed text in a refusal; cuts it, since it may be as long as a request. */
export const quoteTypedText = (text: string): string => `"${text.length > 80 ? `${text.slice(0, 80)}…` : text}"`;

/** Reads a display name. `what`: the thing it names, such as "the workspace". @throws AppError bad_request */
export function readDisplayName(what: string, text: string): string {
  const name = text.trim();
  if (name === "" || name.length > LONGEST_NAME || /\p{Cc}/u.test(name)) {
    throw new AppError("bad_request", `give ${what} a name of 1 to ${LONGEST_NAME} characters, without line breaks`);
  }
  return name;
}

/** Reads a reason or description for people: one line. @throws AppError bad_request */
export function readTypedReason(text: string): string {
  const reason = text.trim();
  if (reason === "" || reason.length > LONGEST_REASON || /[\p{Cc}\u2028\u2029]/u.test(reason)) {
    throw new AppError("bad_request", `give a reason of 1 to ${LONGEST_REASON} characters, without line breaks`);
  }
  return reason;
}

/** Reads an address; returns it in lower case, its domain in A-labels. @throws AppError bad_request */
export function readTypedAddress(text: string): string {
  const address = normalizeAddress(text);
  if (address === undefined) {
    throw new AppError("bad_request", `${quoteTypedText(text)} is not an address: give one like ada@example.com`);
  }
  return address;
}

/** Reads a domain; returns it in A-labels, lower case, without a final dot. @throws AppError bad_request */
export function readTypedDomain(text: string): string {
  const domain = normalizeMailDomain(text.trim().replace(/\.$/, ""));
  if (domain === undefined) {
    throw new AppError("bad_request", `${quoteTypedText(text)} is not a domain: give one like example.com`);
  }
  return domain;
}
