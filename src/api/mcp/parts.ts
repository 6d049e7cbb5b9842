/**
 * Parts of the results of several tools: addresses, attachments, rows of conversations. `shown…` gives values cleaned
 * and cut; `…Text` writes them as text.
 */
import type { AttachmentView, HighlightView, ThreadView } from "../../mailbox/state/views.ts";
import type { EmailAddress } from "../../message/address.ts";
import { takeThatFit } from "./budget.ts";
import { cleanLineForMailFence, defuseFenceMarks } from "./fence.ts";

const LONGEST_ADDRESS = 128;
const LONGEST_NAME = 80;
const LONGEST_SUBJECT = 250;
const LONGEST_SNIPPET = 200;
const LONGEST_FILENAME = 120;
const LONGEST_TYPE = 80;
const LONGEST_MESSAGE_ID = 250;
const LONGEST_LABEL = 60;
/** Share of a result's budget that one list inside the result may take, and the characters that it may take in any. */
const SHARE_OF_A_LIST = 1 / 20;
const LEAST_OF_A_LIST = 120;

export const subjectLine = (subject: string): string => cleanLineForMailFence(subject, LONGEST_SUBJECT);
export const snippetLine = (snippet: string): string => cleanLineForMailFence(snippet, LONGEST_SNIPPET);
export const messageIdLine = (id: string): string => cleanLineForMailFence(id, LONGEST_MESSAGE_ID);
export const contentTypeLine = (type: string): string => cleanLineForMailFence(type, LONGEST_TYPE);
export const filenameLine = (name: string): string => cleanLineForMailFence(name, LONGEST_FILENAME);

export function cleanAddressForMailFence({ email, name = "" }: EmailAddress): EmailAddress {
  const shown = cleanLineForMailFence(name, LONGEST_NAME);
  const address = cleanLineForMailFence(email, LONGEST_ADDRESS);
  return shown === "" ? { email: address } : { email: address, name: shown };
}

/** Writes `"Ann Example" <ann@remote.example>`. A name that looks like an address cannot pose as one. */
export const formatAddressForMcp = ({ email, name }: EmailAddress): string =>
  name === undefined ? email : defuseFenceMarks(`"${name.replace(/["<>]+/g, "'")}" <${email}>`);

interface Shortened<T> {
  items: T[];
  /** How many items had no room. */
  more: number;
}

/** Characters that a list may take inside a result of `budget` characters. */
const roomOfList = (budget: number): number => Math.max(LEAST_OF_A_LIST, Math.floor(budget * SHARE_OF_A_LIST));

/** Takes the first items, as many as have room: by default that of a list inside a result of `budget` characters. */
export function shortenList<T>(
  items: readonly T[],
  budget: number,
  formatItem: (item: T) => string,
  room = roomOfList(budget),
): Shortened<T> {
  if (items.length === 0) return { items: [], more: 0 };
  const taken = takeThatFit(items, room, formatItem);
  return { items: taken, more: items.length - taken.length };
}

/**
 * More characters than stand around an address, as text or as JSON. Each of its own characters takes at most two there.
 */
const AROUND_ADDRESS = 30;
const MOST_SHOWN = 1_000;

export function shortenAddresses(addresses: readonly EmailAddress[], budget: number): Shortened<EmailAddress> {
  // A message may have thousands of recipients, and only the first can have room.
  const shown = addresses.map((address, index) => (index < MOST_SHOWN ? cleanAddressForMailFence(address) : address));
  let most = 0;
  for (const { email, name = "" } of shown) most += 2 * (email.length + name.length) + AROUND_ADDRESS;
  return most <= roomOfList(budget) ? { items: shown, more: 0 } : shortenList(shown, budget, formatAddressForMcp);
}

/** Writes `a, b, +280 more`. */
export const formatShortenedList = (items: readonly string[], more: number): string =>
  [...items, ...(more > 0 ? [`+${more} more`] : [])].join(", ");

/** Writes an attachment without its URL, which get_attachment gives. */
export const formatAttachmentForMcp = ({ id, filename, contentType, size, inline }: AttachmentView): string =>
  `${id} "${filenameLine(filename)}" ${contentTypeLine(contentType)}, ${size} bytes${inline ? ", inline" : ""}`;

/**
 * A conversation as REST lists it, without its participants, and without `receivedOn` when it is the mailbox's address.
 */
export function buildMcpThread(thread: ThreadView, budget: number) {
  const labels = shortenList(
    thread.labels.map((label) => cleanLineForMailFence(label, LONGEST_LABEL)),
    budget,
    (label) => label,
  );
  return {
    id: thread.id,
    mailbox: thread.mailbox,
    receivedOn:
      thread.receivedOn === thread.mailbox ? undefined : cleanLineForMailFence(thread.receivedOn, LONGEST_ADDRESS),
    subject: subjectLine(thread.subject),
    snippet: snippetLine(thread.snippet),
    from: cleanAddressForMailFence(thread.from),
    folder: thread.folder,
    unread: thread.unread,
    starred: thread.starred,
    labels: labels.items,
    moreLabels: labels.more === 0 ? undefined : labels.more,
    lastMessageAt: thread.lastMessageAt,
    snoozedUntil: thread.snoozedUntil,
    hasAttachments: thread.hasAttachments,
    messageCount: thread.messageCount,
    highlights: thread.highlights && shownHighlights(thread.highlights),
  };
}

/** Fields of a conversation that a change may have changed. */
export const pickChangeableThreadFields = ({ id, folder, unread, starred }: ReturnType<typeof buildMcpThread>) => ({
  id,
  folder,
  unread,
  starred,
});

/** Enough to know which message to read. */
const HIGHLIGHTS_SHOWN = 3;

/** The row shows the subject already, so other fields come first. Without ranges: cleaning moves characters. */
const shownHighlights = (highlights: readonly HighlightView[]) =>
  highlights
    .toSorted((a, b) => Number(a.field === "subject") - Number(b.field === "subject"))
    .slice(0, HIGHLIGHTS_SHOWN)
    .map(({ emailId, field, snippet }) => ({ emailId, field, snippet: snippetLine(snippet) }));

/** Writes a conversation on a few lines. The first begins with the id. */
export function formatThreadForMcp(thread: ReturnType<typeof buildMcpThread>): string {
  const { labels, moreLabels = 0, highlights = [], snippet } = thread;
  let text = `${thread.id} | ${thread.lastMessageAt} | ${thread.receivedOn ?? thread.mailbox} | ${thread.folder}`;
  if (thread.unread) text += ", unread";
  if (thread.starred) text += ", starred";
  if (thread.hasAttachments) text += ", attachments";
  if (thread.messageCount !== 1) text += `, ${thread.messageCount} messages`;
  if (thread.snoozedUntil !== undefined) text += `, snoozed until ${thread.snoozedUntil}`;
  if (labels.length > 0) text += `, labels: ${formatShortenedList(labels, moreLabels)}`;
  text += `\n  ${formatAddressForMcp(thread.from)}: ${thread.subject}`;
  const found = highlights.filter(({ field }) => field !== "subject");
  for (const { emailId, field, snippet } of found) text += `\n  ${emailId} ${field}: ${snippet}`;
  return found.length === 0 && snippet !== "" ? `${text}\n  ${snippet}` : text;
}
