/**
 * Reads recipients from a request (rules: Recipients, Reply request). Strict: a guess that is harmless in a received
 * header would, in an outgoing one, send mail to somebody else. Every entry becomes one address, or all are refused.
 */
import { AppError } from "../base/errors.ts";
import { type EmailAddress, envelopeAddress, isAddressLiteral, readAddressEntries } from "./address.ts";

/** Limit on the recipients that are read; the limit per message is a setting. */
const MAX_RECIPIENTS = 5_000;
/** Characters of an unfinished text that are read. */
const LONGEST_UNFINISHED = 1_000_000;
/** Characters of the input that a refusal shows. */
const SHOWN = 80;

/**
 * The addresses given, in order: a list with commas, or several such lists; groups give their members. `email` is the
 * local part as typed and the domain in A-labels. Empty for white space and commas. `what`: what a refusal calls an entry.
 * @throws AppError `unprocessable`, naming the first entry that mail cannot be sent to.
 */
export function readRecipients(given: string | readonly string[] | undefined, what = "recipient"): EmailAddress[] {
  const lists = typeof given === "string" ? [given] : (given ?? []);
  const recipients: EmailAddress[] = [];
  for (const list of lists) {
    for (const { source, addresses, exact } of readAddressEntries(list)) {
      if (recipients.length >= MAX_RECIPIENTS)
        throw new AppError("unprocessable", `more than ${MAX_RECIPIENTS} recipients`);
      const email = exact === undefined ? undefined : envelopeAddress(exact);
      if (email === undefined) throw refusal(what, source, "is not an email address");
      if (isAddressLiteral(email)) throw refusal(what, source, "names a host by its IP address, not by a domain");
      const name = addresses[0]?.name;
      recipients.push(name === undefined ? { email } : { email, name });
    }
  }
  return recipients;
}

/**
 * Reads the addresses of a text that is still being written. `rest`: the part, as typed, that cannot be read yet or exceeds the
 * limit.
 */
export function readUnfinishedRecipients(given: string): { addresses: EmailAddress[]; rest: string } {
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

const refusal = (what: string, source: string, why: string): AppError =>
  new AppError("unprocessable", `${what} ${quoteRefusedInput(source)} ${why}`);

/** The beginning of an input as its refusal shows it: in quotation marks, on one line. */
export function quoteRefusedInput(given: string): string {
  const beginning = given.trimStart().slice(0, 2 * SHOWN);
  const oneLine = beginning.replace(/[\s\p{C}]+/gu, " ").trim();
  const shown = oneLine.length > SHOWN ? `${oneLine.slice(0, SHOWN)}…` : oneLine;
  return `"${shown.toWellFormed()}"`;
}
