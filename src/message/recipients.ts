/**
 * Recipients as a request names them (rules: Recipients, Reply request). Read strictly: a guess that is harmless in a
 * header that came is, in one that goes out, mail to somebody else. Every entry becomes one address, or all are refused.
 */
import { AppError } from "../base/errors.ts";
import { type EmailAddress, envelopeAddress, isAddressLiteral, readAddressEntries } from "./address.ts";

/** More than these are not even read; how many a message may have is a setting. */
const MAX_RECIPIENTS = 5_000;
/** Characters of an unfinished text that are read. */
const LONGEST_UNFINISHED = 1_000_000;
/** Characters that a refusal shows of what was given. */
const SHOWN = 80;

/**
 * The addresses given, in order: a list with commas, or several such lists; groups give their members. `email` is the
 * local part as typed and the domain in A-labels. Empty for nothing but white space and commas.
 * @throws AppError `unprocessable`, naming the first entry that mail cannot be sent to.
 */
export function readRecipients(given: string | readonly string[] | undefined): EmailAddress[] {
  const lists = typeof given === "string" ? [given] : (given ?? []);
  const recipients: EmailAddress[] = [];
  for (const list of lists) {
    for (const { source, addresses, exact } of readAddressEntries(list)) {
      if (recipients.length >= MAX_RECIPIENTS)
        throw new AppError("unprocessable", `more than ${MAX_RECIPIENTS} recipients`);
      const email = exact === undefined ? undefined : envelopeAddress(exact);
      if (email === undefined) throw refusal(source, "is not an email address");
      if (isAddressLiteral(email)) throw refusal(source, "names a host by its IP address, not by a domain");
      const name = addresses[0]?.name;
      recipients.push(name === undefined ? { email } : { email, name });
    }
  }
  return recipients;
}

/** The same of a text that is still being written: `rest` is what cannot be read yet, or is too much, as it was typed. */
export function readUnfinished(given: string): { addresses: EmailAddress[]; rest: string } {
  const addresses: EmailAddress[] = [];
  const rest: string[] = [];
  for (const { source } of readAddressEntries(given.slice(0, LONGEST_UNFINISHED))) {
    const read = addresses.length < MAX_RECIPIENTS ? readEntry(source) : undefined;
    if (read) addresses.push(...read);
    else rest.push(source.trim());
  }
  return { addresses, rest: rest.join(", ") };
}

function readEntry(source: string): EmailAddress[] | undefined {
  try {
    return readRecipients(source);
  } catch {
    return undefined;
  }
}

const refusal = (source: string, why: string): AppError =>
  new AppError("unprocessable", `recipient ${quoteGiven(source)} ${why}`);

/** What a request gave, as its refusal shows it: in quotation marks, on one line, and no more than its beginning. */
export function quoteGiven(given: string): string {
  const beginning = given.trimStart().slice(0, 2 * SHOWN);
  const oneLine = beginning.replace(/[\s\p{C}]+/gu, " ").trim();
  const shown = oneLine.length > SHOWN ? `${oneLine.slice(0, SHOWN)}…` : oneLine;
  return `"${shown.toWellFormed()}"`;
}
