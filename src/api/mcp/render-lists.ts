/** Lists of conversations, messages and mailboxes: rows with snippets, never bodies. */
import type { ChangedThreads } from "../../mailbox/changing/threads.ts";
import type { MailboxView, MessageSummaryView, ThreadListView, ThreadView } from "../../mailbox/state/views.ts";
import { jsonTextLength, resultBudget } from "./budget.ts";
import { cleanLineForMailFence, drawMailFenceNonce, wrapInMailFence } from "./fence.ts";
import {
  buildMcpThread,
  cleanAddressForMailFence,
  formatAddressForMcp,
  formatShortenedList,
  formatThreadForMcp,
  pickChangeableThreadFields,
  shortenAddresses,
  snippetLine,
  subjectLine,
} from "./parts.ts";
import { makeMailToolResult, type RenderArguments, type RenderContext, type Rendered } from "./result.ts";

/** Longest query, in characters, as in the schema of `q`. */
const LONGEST_QUERY = 500;

/** Longest note that is shown, in characters. A search has at most five notes. */
const LONGEST_NOTE = 200;

/** Most near words that are shown. Each has at most 64 characters, letters and digits alone. */
const NEAR_WORDS_SHOWN = 5;

/** Characters kept free for what stands around the rows: counts, the fence, a cursor, how to continue. */
const AROUND = 1_600;

/** Rows that have room. */
interface Rows<S> {
  text: string;
  /** Structured content of each row. */
  structured: S[];
}

/** Takes the first rows, as many as have room both as text and as JSON. */
function takeRows<T, S>(
  rows: readonly T[],
  budget: number,
  formatRow: (row: T) => string,
  toStructuredRow: (row: T) => S,
): Rows<S> {
  let left = budget - AROUND;
  const texts: string[] = [];
  const structured: S[] = [];
  for (const row of rows) {
    const text = formatRow(row);
    const values = toStructuredRow(row);
    // A line break takes two characters in JSON, and a comma one.
    left -= jsonTextLength(text) + JSON.stringify(values).length + 3;
    if (left < 0) break;
    texts.push(text);
    structured.push(values);
  }
  return { text: texts.join("\n"), structured };
}

const pickId = ({ id }: { id: string }) => ({ id });

const fenceRows = (rows: string, { nonce }: RenderContext): string =>
  rows === "" ? "" : wrapInMailFence(drawMailFenceNonce(nonce, rows), rows);

const joinParts = (parts: readonly string[]): string => parts.filter((part) => part !== "").join("\n");

export function createMcpThreadsRenderer(tool: "list_threads" | "search_mail") {
  return (answer: ThreadListView, args: RenderArguments, context: RenderContext): Rendered => {
    const budget = resultBudget(args);
    const threads = answer.threads.map((thread) => buildMcpThread(thread, budget));
    const rows = takeRows(threads, budget, formatThreadForMcp, pickId);
    const shown = rows.structured.length;
    const isSearch = threads.some(({ highlights = [] }) => highlights.length > 0);
    const suggestion =
      answer.suggestion === undefined ? undefined : cleanLineForMailFence(answer.suggestion, LONGEST_QUERY);
    const notes = (answer.notes ?? []).map((note) => cleanLineForMailFence(note, LONGEST_NOTE));
    const near = (answer.nearWords ?? []).slice(0, NEAR_WORDS_SHOWN);
    const order = answer.sort === "relevance" ? "best match first" : "newest first";
    const left = threads.length - shown;
    const cut =
      left === 0
        ? undefined
        : `Cut: ${left} of these ${threads.length} conversations had no room. Ask again with limit ${shown}, whose cursor follows the last one shown, or with a larger maxChars.`;
    const next =
      answer.nextCursor === null
        ? left === 0
          ? "No more."
          : ""
        : left === 0
          ? `More: ${tool} with the same arguments and cursor ${answer.nextCursor}`
          : "";
    const text = joinParts([
      `${shown} conversations, ${order}; ${answer.unread} unread match on all pages. Rows: id | last message | received on | state; sender: subject; ${isSearch ? "where it was found, message id and field, else snippet" : "snippet"}.`,
      ...(notes.length === 0 ? [] : ["Of q:", fenceRows(notes.join("\n"), context)]),
      ...(near.length === 0 ? [] : ["Nothing has these words. Found instead:", fenceRows(near.join(", "), context)]),
      fenceRows(rows.text, context),
      ...(suggestion === undefined ? [] : ["Nothing matches. This q does:", fenceRows(suggestion, context)]),
      cut ?? "",
      next,
    ]);
    const nextCursor = left === 0 ? answer.nextCursor : null;
    return {
      ...makeMailToolResult(text, { threads: rows.structured, nextCursor, unread: answer.unread, sort: answer.sort }),
      ...(left === 0 ? {} : { askAgain: { limit: shown } }),
    };
  };
}

export function renderUpdatedThreadForMcp(
  { thread }: { thread: ThreadView },
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const shown = buildMcpThread(thread, resultBudget(args));
  return makeMailToolResult(`Changed. The conversation is now:\n${fenceRows(formatThreadForMcp(shown), context)}`, {
    thread: pickChangeableThreadFields(shown),
  });
}

const LONGEST_ID = 100;

/** The refusals with one reason stand together, and conversations that were changed are counted: the caller named them. */
export function renderUpdatedThreadsForMcp({ threads, refused }: ChangedThreads): Rendered {
  const byReason = Map.groupBy(refused, ({ code, error }) => `${code}: ${error}`);
  const reasons = [...byReason].map(([reason, those]) => ({
    reason,
    ids: those.map(({ id }) => cleanLineForMailFence(id, LONGEST_ID)),
  }));
  const lines = reasons.map(({ reason, ids }) => `${reason}: ${ids.join(", ")}`);
  return {
    text: [`Changed ${threads.length} conversations${lines.length === 0 ? "." : "; refused:"}`, ...lines].join("\n"),
    structured: { changed: threads.length, refused: reasons },
  };
}

function shownSummary(message: MessageSummaryView, budget: number) {
  const to = shortenAddresses(message.to, budget);
  const cc = shortenAddresses(message.cc ?? [], budget);
  const more = to.more + cc.more;
  return {
    id: message.id,
    threadId: message.threadId,
    mailbox: message.mailbox,
    folder: message.folder,
    direction: message.direction,
    from: cleanAddressForMailFence(message.from),
    to: to.items,
    ...(cc.items.length === 0 ? {} : { cc: cc.items }),
    ...(more === 0 ? {} : { moreRecipients: more }),
    subject: subjectLine(message.subject),
    snippet: snippetLine(message.snippet),
    date: message.date,
    read: message.read,
  };
}

function summaryText(message: ReturnType<typeof shownSummary>): string {
  const to = formatShortenedList(
    [...message.to, ...(message.cc ?? [])].map(formatAddressForMcp),
    message.moreRecipients ?? 0,
  );
  return [
    `${message.id} | ${message.threadId} | ${message.date} | ${message.mailbox} | ${message.folder}, ${message.direction}${message.read ? "" : ", unread"}`,
    `  ${formatAddressForMcp(message.from)} to ${to}: ${message.subject}`,
    ...(message.snippet === "" ? [] : [`  ${message.snippet}`]),
  ].join("\n");
}

/** The budget of one row, of which its recipients get the share of a list (parts.ts). */
const BUDGET_OF_A_ROW = 6_000;

/**
 * REST has no cursor here, so `offset` continues in the same answer. Arrivals have one, and the caller asks for fewer.
 */
export function renderMessagesForMcp(
  answer: { messages: MessageSummaryView[]; count: number },
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const budget = resultBudget(args);
  const offset = Math.min(args.offset ?? 0, answer.messages.length);
  const messages = answer.messages.slice(offset).map((message) => shownSummary(message, BUDGET_OF_A_ROW));
  const rows = takeRows(messages, budget, summaryText, pickId);
  const count = rows.structured.length;
  const left = messages.length - count;
  const nextOffset = left === 0 ? undefined : offset + count;
  const cut =
    left === 0
      ? undefined
      : `Cut: ${left} of these ${answer.messages.length} messages had no room. Go on with list_messages, the same arguments and offset ${nextOffset}.`;
  const text = joinParts([
    `${count} messages, newest first. Rows: id | conversation | date | mailbox | state; sender to recipients: subject; snippet. get_message has the text.`,
    fenceRows(rows.text, context),
    cut ?? "",
  ]);
  return {
    ...makeMailToolResult(text, { messages: rows.structured, count, nextOffset }),
    ...(left === 0 || offset > 0 ? {} : { askAgain: { limit: Math.max(1, count) } }),
  };
}

const LONGEST_DISPLAY_NAME = 80;
const ALIASES_SHOWN = 20;

/** The names of mailboxes come from the workspace and not from mail, so they need no fence. */
export function renderMailboxesForMcp(answer: { mailboxes: MailboxView[] }, args: RenderArguments): Rendered {
  const offset = Math.min(args.offset ?? 0, answer.mailboxes.length);
  const mailboxes = answer.mailboxes.slice(offset).map(({ displayName, aliases, ...mailbox }) => ({
    ...mailbox,
    displayName: cleanLineForMailFence(displayName, LONGEST_DISPLAY_NAME),
    aliases: aliases.slice(0, ALIASES_SHOWN),
    ...(aliases.length > ALIASES_SHOWN ? { moreAliases: aliases.length - ALIASES_SHOWN } : {}),
  }));
  const formatRow = ({
    id,
    address,
    displayName,
    aliases,
    moreAliases = 0,
    source,
    access,
    unread,
  }: (typeof mailboxes)[number]) => {
    const may = Object.entries(access).flatMap(([what, allowed]) => (allowed ? [what] : []));
    const others = aliases.length === 0 ? "" : `; aliases ${formatShortenedList(aliases, moreAliases)}`;
    return `${id} | ${address} "${displayName}" | ${source}: ${may.join(", ")} | ${unread} unread${others}`;
  };
  const rows = takeRows(mailboxes, resultBudget(args), formatRow, (row) => row);
  const count = rows.structured.length;
  const left = mailboxes.length - count;
  const nextOffset = left === 0 ? undefined : offset + count;
  const cut =
    left === 0
      ? ""
      : `Cut: ${left} of ${answer.mailboxes.length} mailboxes had no room. Go on with list_mailboxes, offset ${nextOffset}.`;
  return {
    text: joinParts([`${count} mailboxes:`, rows.text, cut]),
    structured: { mailboxes: rows.structured, nextOffset },
  };
}
