/**
 * Reads bounces that are written for people only: which addresses a notice names, and what it says of each. No standard
 * describes them, and no rule here is specific to one mail system: a notice names an address at the beginning of a line
 * or after a word that announces it, gives the reply near it, and ends where the header of the returned message begins.
 *
 * Linear in the text, of which only the beginning is read.
 */
import { normalizeAddress } from "./address.ts";
import {
  addressIn,
  diagnosticOf,
  fieldGroupsIn,
  isUnspecific,
  type ReplyCodes,
  type ReportedRecipient,
  recipientOf,
  replyCodesIn,
} from "./delivery-status.ts";

/** A notice in lines, separated from the header of the message that it returns. */
export interface NoticeText {
  lines: NoticeLine[];
  /** "" when the text returns no header. */
  returnedHeader: string;
}

interface NoticeLine {
  text: string;
  /** The address at the beginning of the line, normalized. */
  entry: string | undefined;
  codes: ReplyCodes;
}

/** Every recipient is looked up in every line, so both are limited. */
const MAX_LENGTH = 64 * 1024;
const MAX_LINES = 1_000;
const MAX_LINE = 1_000;
export const MAX_RECIPIENTS = 100;

const HEADER_FIELD =
  /^(?:received|return-path|from|to|cc|subject|date|message-id|mime-version|content-type|reply-to|sender|dkim-signature|x-[a-z0-9-]{1,60}|[a-z]{2,30}-signature|authentication-results|references|in-reply-to)[ \t]*:/i;
/** Three of these make a header if one of them names an origin; with Received, one is enough. */
const TELLING_FIELD = /^(received|from|to|subject|date|message-id)[ \t]*:/i;
const ORIGIN_FIELD = ["received", "from", "message-id"];

/** Splits a text at the first line where a header certainly begins. */
export function readNotice(text: string): NoticeText {
  const lines = text.slice(0, MAX_LENGTH).split("\n", MAX_LINES);
  let start = -1;
  let telling = new Set<string>();
  for (const [index, line] of lines.entries()) {
    if (HEADER_FIELD.test(line)) {
      if (start < 0) start = index;
      const name = TELLING_FIELD.exec(line)?.[1]?.toLowerCase();
      if (name !== undefined) telling.add(name);
      const isHeader = telling.size >= 3 && ORIGIN_FIELD.some((name) => telling.has(name));
      if (isHeader || (telling.size === 2 && telling.has("received"))) {
        return { lines: lines.slice(0, start).map(readLine), returnedHeader: lines.slice(start).join("\n") };
      }
    } else if (!/^[ \t]+\S|^[a-z][a-z0-9-]{0,60}[ \t]*:/i.test(line)) {
      start = -1;
      telling = new Set();
    }
  }
  return { lines: lines.map(readLine), returnedHeader: "" };
}

function readLine(line: string): NoticeLine {
  const text = line.slice(0, MAX_LINE).trimEnd();
  return { text, entry: normalizeAddress(ENTRY.exec(text)?.[1] ?? ""), codes: replyCodesIn(text) };
}

/** What the caller knows about a notice besides its text. */
export interface NoticeContext {
  subject: string;
  /** Values of X-Failed-Recipients header fields. */
  failed: readonly string[];
  /** Addresses that are not recipients: sender and addressee of the notice. */
  others: readonly string[];
  /** Recipients in the header of the returned message. */
  addressed: readonly string[];
}

/** The recipients that a notice reports on, in order; none if it does not read like a bounce. */
export function readBounce({ lines }: NoticeText, context: NoticeContext): ReportedRecipient[] {
  const texts = lines.map(({ text }) => text);
  const fields = fieldGroupsIn(texts.join("\n")).flatMap((group) =>
    group.has("final-recipient") ? (recipientOf(group) ?? []) : [],
  );
  if (fields.length > 0) return withNotice(fields, lines);
  const isDelayed = DELAYED.test(context.subject) || texts.some((text) => STILL_TRIED.test(text));
  const isFailed =
    context.failed.length > 0 ||
    replyIn(lines) !== undefined ||
    [context.subject, ...texts].some((text) => FAILURE.test(text));
  if (!isDelayed && !isFailed) return [];
  const action = isDelayed ? "delayed" : "failed";
  return withNotice(
    namedIn(lines, context).map((recipient) => ({ recipient, action })),
    lines,
  );
}

/** `reported`, with codes and replies from the text where the report gives none. */
export function withNotice(reported: readonly ReportedRecipient[], lines: readonly NoticeLine[]): ReportedRecipient[] {
  const isAlone = reported.length === 1;
  return reported.map((recipient, index) =>
    index < MAX_RECIPIENTS && isIncomplete(recipient)
      ? completed(recipient, saidOf(recipient, lines, isAlone))
      : recipient,
  );
}

/** The text of a notice mostly explains failures, so only those are completed from it. */
const isIncomplete = ({ action, code, status }: ReportedRecipient): boolean =>
  (action === "failed" || action === "delayed") && (code === undefined || isUnspecific(status));

function completed(reported: ReportedRecipient, { origin, reply, isAtRcpt }: Said): ReportedRecipient {
  const said = replyCodesIn(reply ?? "");
  const code = reported.code ?? said.code;
  const status = moreSpecific(reported.status, said.status);
  const diagnostic = reported.diagnostic ?? reply;
  const isBare = isUnspecific(status) && replyCodesIn(diagnostic ?? "").status === undefined;
  return {
    ...reported,
    ...(reported.original === undefined && origin !== undefined ? { original: origin } : {}),
    ...(status === undefined ? {} : { status }),
    ...(code === undefined ? {} : { code }),
    ...(diagnostic === undefined ? {} : { diagnostic }),
    ...(isAtRcpt && isBare && code !== undefined ? { bareAtRcpt: true } : {}),
  };
}

/** `found` if it is more specific than `reported` and of the same class, else `reported`. */
function moreSpecific(reported: string | undefined, found: string | undefined): string | undefined {
  return isUnspecific(reported) && (reported === undefined || found?.[0] === reported[0])
    ? (found ?? reported)
    : reported;
}

const FAILURE =
  /\bfail(?:ed|ure|s)?\b|\berror\b|undeliver|(?:not|n't) (?:be |been )?(?:deliver|sent|send)|un(?:able|known)\b|did not reach|was(?: not|n't) able|not listed|aborted|reject|returned (?:mail|message)|mailbox|permanent error|trouble delivering/i;
const DELAYED = /\bdelay(?:ed)?\b|^warning\b|\bwarning\s*$|still being retried/i;
const STILL_TRIED =
  /\bwill (?:continue|keep)\b.{0,20}\btry|attempts? will continue|still being retried|will be retried|only a temporary failure|warning message only/i;

const ADDRESS = String.raw`[^\s<>"'(),;:@[\]|]{1,64}@[\p{L}\p{N}_-][\p{L}\p{N}._-]{0,253}[\p{L}\p{N}]`;
/** A line about an address begins with it, perhaps as an item of a list. */
const ENTRY = new RegExp(
  String.raw`^[\s>*•-]{0,40}(?:"[^"<]{0,100}"\s*)?["'<]{0,2}(${ADDRESS})(?=$|[\s>"':,;[(<.])`,
  "u",
);
const ANYWHERE = new RegExp(`(?<![^\\s<>"'(),;:[\\]|])${ADDRESS}`, "gu");
/** A reply in a transcript: `550 5.1.1 <a@b.example>... User unknown`. */
const REPLY_ABOUT = new RegExp(String.raw`^\s{0,10}[45]\d\d[\s-](?:[45]\.\d\.\d{1,3}\s)?<(${ADDRESS})>`, "u");
const COMMAND = new RegExp(String.raw`\brcpt to:\s?<?(${ADDRESS})`, "iu");
/** Lines about the message or about whom to contact. */
const ASIDE =
  /^\s*(?:from|sender|subject|message-id|original sender|mail from|reply-to)\s*:|contact|assistance|please send/i;

/** The failed addresses, found by the most reliable way that yields any. */
function namedIn(lines: readonly NoticeLine[], { failed, others, addressed }: NoticeContext): string[] {
  const strangers = new Set(others.map(normalizeAddress));
  const told = lines.filter(({ text }) => !ASIDE.test(text)).map(({ text }) => text);
  const entries = told.map((text) => ENTRY.exec(text)?.[1]);
  const isRecipient = (address: string | undefined) => !strangers.has(normalizeAddress(address ?? ""));
  const ways: (() => (string | undefined)[])[] = [
    () => failed.map(addressIn),
    () => entries.filter(isRecipient),
    () => told.map((text) => REPLY_ABOUT.exec(text)?.[1]),
    () => told.map((text) => COMMAND.exec(text)?.[1]),
    () => told.flatMap((text) => text.match(ANYWHERE) ?? []).filter(isRecipient),
    () => (addressed.length === 1 ? [...addressed] : []),
    // No other address is left: the sender wrote to themselves.
    () => entries,
  ];
  for (const way of ways) {
    const found = new Map<string, string>();
    for (const address of way()) {
      const key = normalizeAddress(address ?? "");
      if (address !== undefined && key !== undefined && !found.has(key)) found.set(key, address);
    }
    if (found.size > 0) return [...found.values()].slice(0, MAX_RECIPIENTS);
  }
  return [];
}

const GENERATED_FROM = new RegExp(
  String.raw`\((?:ultimately )?(?:generated|expanded) from:?\s{0,3}<?(${ADDRESS})>?\)`,
  "iu",
);
/** Lines after an address that may be about it. */
const MAX_ABOUT = 30;

/** What a notice says about one recipient: the address that the sender used, if given, and the reply. */
interface Said {
  origin?: string;
  reply?: string;
  /** The server said it in reply to RCPT. */
  isAtRcpt: boolean;
}

/** The phrases of Postfix, Exim, sendmail's transcript and qmail. */
const AT_RCPT =
  /\(in reply to RCPT TO command\)|\bafter RCPT TO:|>>> ?RCPT TO:\s?\S{1,320} <<< 5\d\d|\bdoes not like recipient\b/i;

/** `isAlone`: the notice names no other recipient, so any reply in it is about this one. */
function saidOf({ recipient }: ReportedRecipient, lines: readonly NoticeLine[], isAlone: boolean): Said {
  const key = normalizeAddress(recipient);
  const about = lines.flatMap((line, index) => {
    if (line.entry === undefined || line.entry !== key) return [];
    const next = lines.slice(index + 1, index + MAX_ABOUT).findIndex(({ entry }) => entry !== undefined);
    return lines.slice(index, next < 0 ? index + MAX_ABOUT : index + 1 + next);
  });
  const origin = about.map(({ text }) => GENERATED_FROM.exec(text)?.[1]).find((address) => address !== undefined);
  const lower = recipient.toLowerCase();
  const mentions = lines.filter(({ text }) => text.toLowerCase().includes(lower));
  const reply = replyIn(about) ?? replyIn(mentions) ?? (isAlone ? replyIn(lines) : undefined) ?? wordsOf(about);
  const told = (isAlone ? lines : about).map(({ text }) => text.trim()).join(" ");
  return {
    isAtRcpt: AT_RCPT.test(told),
    ...(origin === undefined ? {} : { origin }),
    ...(reply === undefined ? {} : { reply }),
  };
}

/** Lines over which a reply may continue. */
const MAX_REPLY = 5;

/** A reply without codes: the first lines that are more than a ruled line or the heading of the returned message. */
function wordsOf(lines: readonly NoticeLine[]): string | undefined {
  const worded = lines.map(({ text }) => text).filter((text) => /^[^-=*|]*\p{L}/u.test(text));
  return diagnosticOf(worded.slice(0, MAX_REPLY).join(" "));
}

/** The first line with codes (complete codes first) and the rest of its paragraph. */
function replyIn(lines: readonly NoticeLine[]): string | undefined {
  const isReply = [
    ({ code = 0, status }: ReplyCodes) => code >= 400 && status !== undefined,
    ({ code = 0 }: ReplyCodes) => code >= 400,
    ({ status = "2" }: ReplyCodes) => !status.startsWith("2"),
  ];
  for (const test of isReply) {
    const first = lines.findIndex(({ codes }) => test(codes));
    if (first < 0) continue;
    const paragraph = lines.slice(first, first + MAX_REPLY).map(({ text }) => text);
    const end = paragraph.findIndex((text) => text.trim() === "");
    return diagnosticOf(paragraph.slice(0, end < 0 ? MAX_REPLY : end).join(" "));
  }
  return undefined;
}
