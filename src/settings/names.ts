/**
 * What people type when they name things: display names, domains, addresses. Each comes back in the one form that is
 * stored, or is refused saying what to give.
 */
import { AppError } from "../errors.ts";
import { normalizeAddress, splitAddress } from "../message/address.ts";

const LONGEST_NAME = 120;

/** A display name, trimmed. @throws AppError bad_request; `what` is whose name it is, such as "a workspace". */
export function nameOf(what: string, text: string): string {
  const name = text.trim();
  if (name === "" || name.length > LONGEST_NAME || /\p{Cc}/u.test(name)) {
    throw new AppError("bad_request", `give ${what} a name of 1 to ${LONGEST_NAME} characters, without line breaks`);
  }
  return name;
}

/** An address in lower case, its domain in A-labels. @throws AppError bad_request */
export function addressOf(text: string): string {
  const address = normalizeAddress(text);
  if (address === undefined) {
    throw new AppError("bad_request", `"${text}" is not an address: give one like ada@example.com`);
  }
  return address;
}

/** A domain in A-labels, lower case, without a final dot. @throws AppError bad_request */
export function domainOf(text: string): string {
  const address = normalizeAddress(`postmaster@${text.trim().replace(/\.$/, "")}`);
  const domain = address === undefined ? "" : splitAddress(address).domain;
  // A mail domain of ours is a name in the DNS, below some other: no literal, no bare top-level name, no number.
  if (!/^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(domain)) {
    throw new AppError("bad_request", `"${text}" is not a domain: give one like example.com`);
  }
  return domain;
}
