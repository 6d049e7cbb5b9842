/**
 * Reads what a bounce says about each recipient: in the fields of its machine-readable part, message/delivery-status
 * (RFC 3464), or in its text for people, which this file calls the notice. The fields of message/feedback-report (RFC
 * 5965) have the same form. report.ts finds these parts in a message.
 */
import { normalizeAddress, parseAddressList, splitAddress } from "./address.ts";
import { toVisibleLine } from "./characters.ts";

type ReportedAction = "failed" | "delayed" | "delivered" | "relayed" | "expanded";

export interface ReportedRecipient {
  /** The address at which delivery ended, after aliases and forwarding. */
  recipient: string;
  /** The address that the sender used, if the report gives it and it differs. */
  original?: string;
  action: ReportedAction;
  /** RFC 3463, as `5.1.1`. */
  status?: string;
  /** SMTP reply code in the diagnostic. */
  code?: number;
  /** The server's words on one line, at most 500 characters. */
  diagnostic?: string;
  /** The notice says that the server refused the address in reply to RCPT, without a status of its own. */
  bareAtRcpt?: true;
  /** The notice names nobody: this is the only addressee in the header of the returned message. */
  assumed?: true;
}

/** Values by lower-case field name, unfolded; repeated fields in order. */
export type FieldGroup = Map<string, string[]>;

/** Most groups read from one report; each recipient has one. */
const MAX_GROUPS = 2_000;

/** The groups of fields in a text, separated by empty lines. A line that is not a field ends a group. */
export function fieldGroupsIn(text: string): FieldGroup[] {
  const groups: FieldGroup[] = [];
  let group: FieldGroup = new Map();
  let values: string[] = [];
  const close = () => {
    if (group.size > 0) groups.push(group);
    group = new Map();
  };
  for (const line of text.split(/\r?\n/)) {
    if (groups.length >= MAX_GROUPS) break;
    const [, name, value = ""] = /^([a-z][a-z0-9-]{1,60})[ \t]*:(.*)$/i.exec(line) ?? [];
    if (name !== undefined) {
      const key = name.toLowerCase();
      // Each recipient has one such field: a second one begins a new group although the empty line is missing.
      if (key === "final-recipient" && group.has(key)) close();
      values = group.get(key) ?? [];
      group.set(key, values);
      values.push(value.trim());
    } else if (/^[ \t]+\S/.test(line) && group.size > 0) {
      values.push(`${values.pop() ?? ""}${line.trimEnd()}`);
    } else {
      close();
    }
  }
  close();
  return groups;
}

/** The recipient that a group of fields reports on; undefined if it names none. */
export function readReportedRecipient(group: FieldGroup): ReportedRecipient | undefined {
  const final = readReportedAddress(group.get("final-recipient")?.[0] ?? "");
  const original = readReportedAddress(group.get("original-recipient")?.[0] ?? "");
  const recipient = final ?? original;
  if (recipient === undefined) return undefined;
  const diagnostic = formatDiagnostic((group.get("diagnostic-code")?.[0] ?? "").replace(/^[a-z0-9.-]{1,40}\s*;/i, ""));
  const codes = replyCodesIn(diagnostic ?? "");
  const stated = replyCodesIn(group.get("status")?.[0] ?? "").status;
  // The refusing server's own words take precedence over the reporting server's summary of them.
  const status = stated === undefined || codes.status?.[0] === stated[0] ? (codes.status ?? stated) : stated;
  return {
    recipient,
    ...(original === undefined || normalizeAddress(original) === normalizeAddress(recipient) ? {} : { original }),
    action: readReportedAction(group.get("action")?.[0] ?? "", status),
    ...(status === undefined ? {} : { status }),
    ...(codes.code === undefined ? {} : { code: codes.code }),
    ...(diagnostic === undefined ? {} : { diagnostic }),
  };
}

const ACTIONS: Record<string, ReportedAction> = {
  failed: "failed",
  delayed: "delayed",
  delivered: "delivered",
  deliverable: "delivered",
  relayed: "relayed",
  expanded: "expanded",
};

/** RFC 3464 §2.3.3. If the field is missing, the class of the status decides. */
function readReportedAction(value: string, status: string | undefined): ReportedAction {
  const action = ACTIONS[/^[a-z]+/i.exec(value)?.[0]?.toLowerCase() ?? ""];
  if (action !== undefined) return action;
  return status?.startsWith("2") ? "delivered" : status?.startsWith("4") ? "delayed" : "failed";
}

const MAX_DIAGNOSTIC = 500;

/** A reply on one line, cut to the length that is stored; undefined for an empty one. */
function formatDiagnostic(text: string): string | undefined {
  const line = toVisibleLine(text.replace(/[\s\p{Cc}]+/gu, " ")).slice(0, MAX_DIAGNOSTIC);
  return line === "" ? undefined : line.trimEnd().toWellFormed();
}

/**
 * The address in the value of a field such as `rfc822; a@b.example`, without its type; a utf-8 one without its escapes
 * (RFC 6533 §3). Undefined unless it is an address that mail can be sent to.
 */
export function readReportedAddress(value: string): string | undefined {
  const typed = /^\s*[a-z0-9-]{1,40}\s*;(.*)$/is.exec(value)?.[1] ?? value;
  const unescaped = typed.replace(/\\x\{([0-9a-f]{1,6})\}/gi, (escaped, hex: string) => {
    const point = Number.parseInt(hex, 16);
    return point <= 0x10ffff ? String.fromCodePoint(point) : escaped;
  });
  return parseAddressList(unescaped)
    .map(({ email }) => email)
    .find((email) => normalizeAddress(email) !== undefined);
}

interface ReplyCodes {
  /** SMTP reply code, such as `550`. */
  code?: number;
  /** Enhanced status code (RFC 3463), such as `5.1.1`. */
  status?: string;
}

/** A reply code with a status code is unmistakable: `550 5.1.1`, `550-5.1.1`, `550 #5.1.1`, `550: 5.1.1`. */
const BOTH = /(?<![\d.])([245]\d\d)[\s:-]{0,3}[([]?#?([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)/;
/** A code alone counts only at the beginning of a line, or after a mark or word that announces it. */
const CODE =
  /(?:^[ \t]{0,40}|[:;<>'"([={]\s{0,2}|(?:said|error|code|reply|replied|response|returned|with|status)\s)([45]\d\d)(?=[\s:-]{1,3}\S|['"\])},]|[ \t]{0,40}$)/im;
const STATUS = /(?<![\w.])([245]\.[0-7]\.\d{1,3})(?!\d|\.\d)/;

/**
 * The first reply code (RFC 5321 §4.2) and enhanced status code (RFC 3463) in a server's text; both, if two belong
 * together. Linear.
 */
export function replyCodesIn(text: string): ReplyCodes {
  const both = BOTH.exec(text);
  if (both !== null && both[1]?.[0] === both[2]?.[0]) return { code: Number(both[1]), status: both[2] as string };
  const code = CODE.exec(text)?.[1];
  const status = STATUS.exec(text)?.[1];
  return { ...(code === undefined ? {} : { code: Number(code) }), ...(status === undefined ? {} : { status }) };
}

/** True if a status says only its class, as `5.0.0`, or is absent. */
const isUnspecific = (status: string | undefined): boolean => status === undefined || /\.0\.0+$/.test(status);

/*
 * Bounces that are written for people only: which addresses a notice names, and what it says of each. No standard
 * describes them, and no rule here is specific to one mail system: a notice names an address at the beginning of a line,
 * below a heading, or in a sentence that speaks of failure; it gives the reply near it, and ends where the returned
 * message begins. An address that it suggests instead has not failed.
 *
 * Linear in the text, of which only the beginning is read.
 */

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
/** Three of these fields make a header if one of them names an origin; so do Received and one other. */
const TELLING_FIELD = /^(received|from|to|subject|date|message-id)[ \t]*:/i;
const ORIGIN_FIELD = ["received", "from", "message-id"];

/** A line that announces a copy of the returned message. */
const COPY =
  /^\W{0,20}(?:(?:below this line|this|enclosed|below|included) is (?:just )?a copy of|(?:the )?(?:original|unsent) message(?: (?:follows|below|details|headers?))?[\s:.=_-]*$)/i;

/** Splits a text at the line that announces the returned message, or where its header certainly begins. */
export function splitBounceText(text: string): NoticeText {
  const lines = text.slice(0, MAX_LENGTH).split("\n", MAX_LINES);
  const copy = lines.findIndex((line) => COPY.test(line));
  const end = (start: number) => (copy < 0 ? start : Math.min(copy, start));
  let start = -1;
  let telling = new Set<string>();
  for (const [index, line] of lines.entries()) {
    if (HEADER_FIELD.test(line)) {
      if (start < 0) start = index;
      const name = TELLING_FIELD.exec(line)?.[1]?.toLowerCase();
      if (name !== undefined) telling.add(name);
      const isHeader = telling.size >= 3 && ORIGIN_FIELD.some((name) => telling.has(name));
      if (isHeader || (telling.size === 2 && telling.has("received"))) {
        return { lines: lines.slice(0, end(start)).map(readLine), returnedHeader: lines.slice(start).join("\n") };
      }
    } else if (!/^[ \t]+\S|^[a-z][a-z0-9-]{0,60}[ \t]*:/i.test(line)) {
      start = -1;
      telling = new Set();
    }
  }
  return { lines: lines.slice(0, end(lines.length)).map(readLine), returnedHeader: "" };
}

function readLine(line: string): NoticeLine {
  const text = line.slice(0, MAX_LINE).trimEnd();
  return { text, entry: normalizeAddress(ENTRY.exec(text)?.[1] ?? ""), codes: replyCodesIn(text) };
}

/** Facts about a notice that its text does not give. */
interface NoticeContext {
  subject: string;
  /** Values of X-Failed-Recipients header fields. */
  failed: readonly string[];
  /** Addresses that are not recipients: sender and addressee of the notice, and sender of the returned message. */
  others: readonly string[];
  /** The domain of the notice's sender. */
  domain: string;
  /** Recipients in the header of the returned message. */
  addressed: readonly string[];
}

/** The recipients that a notice reports on, in order; none if it does not read like a bounce. */
export function readBounce({ lines }: NoticeText, context: NoticeContext): ReportedRecipient[] {
  const texts = lines.map(({ text }) => text);
  const fields = fieldGroupsIn(texts.join("\n")).flatMap((group) =>
    group.has("final-recipient") ? (readReportedRecipient(group) ?? []) : [],
  );
  if (fields.length > 0) return completeReportedRecipients(fields, lines);
  const isDelayed =
    (DELAYED.test(context.subject) && !UNKNOWN.test(context.subject)) || texts.some((text) => STILL_TRIED.test(text));
  const isFailed =
    context.failed.length > 0 ||
    replyIn(lines) !== undefined ||
    [context.subject, ...texts].some((text) => FAILURE.test(text));
  if (!isDelayed && !isFailed) return [];
  const action = isDelayed ? "delayed" : "failed";
  return completeReportedRecipients(
    namedIn(lines, context).map((named) => ({ ...named, action })),
    lines,
  );
}

/** Completes `reported` with codes and replies from the text, where the fields give none. */
export function completeReportedRecipients(
  reported: readonly ReportedRecipient[],
  lines: readonly NoticeLine[],
): ReportedRecipient[] {
  const isAlone = reported.length === 1;
  return reported.map((recipient, index) =>
    index < MAX_RECIPIENTS && isIncomplete(recipient)
      ? completed(recipient, findRecipientStatement(recipient, lines, isAlone))
      : recipient,
  );
}

/** The text of a notice mostly explains failures, so only those are completed from it. */
const isIncomplete = ({ action, code, status }: ReportedRecipient): boolean =>
  (action === "failed" || action === "delayed") && (code === undefined || isUnspecific(status));

function completed(reported: ReportedRecipient, { origin, reply, isAtRcpt }: Statement): ReportedRecipient {
  const codes = replyCodesIn(reply ?? "");
  const code = reported.code ?? codes.code;
  const status = moreSpecific(reported.status, codes.status);
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

/** Chooses between two statuses: `found` if `reported` is unspecific and of the same class, else `reported`. */
function moreSpecific(reported: string | undefined, found: string | undefined): string | undefined {
  return isUnspecific(reported) && (reported === undefined || found?.[0] === reported[0])
    ? (found ?? reported)
    : reported;
}

/** Words of failure, also in Chinese, French, German, Italian, Japanese, Portuguese, Russian and Spanish. */
const FAILURE =
  /\bfail(?:ed|ure|s)?\b|\berror\b|undeliver|(?:not|n't) (?:be |been )?(?:deliver|sent|send)|un(?:able|known)\b|did not reach|was(?: not|n't) able|not listed|aborted|reject|returned (?:mail|message)|mailbox|permanent error|trouble delivering|no such|失败|失敗|无法|未能|退信|できません|エラー|non (?:remis|distribué|consegnat|è stat)|pas pu [eê]tre|échec|erreur|(?:nicht|un)zustell|nicht zugestellt|impossibil|não (?:entregue|foi possível)|no (?:se (?:pudo|ha)|entregad|ha sido)|не (?:доставлен|удалось)/iu;
/** Negations, which are words of failure only in a sentence with an address. */
const NEGATION = /\b(?:could|did|does|is|was) (?:no longer|not)\b/i;
const DELAYED = /\bdelay(?:ed)?\b|^warning\b|\bwarning\s*$|still being retried/i;
const UNKNOWN = /\bunknown\b|\bno such\b/i;
const STILL_TRIED =
  /\bwill (?:continue|keep)\b.{0,20}\btry|attempts? will continue|still being retried|will be retried|only a temporary failure|warning message only/i;

const ADDRESS = String.raw`[^\s<>"'(),;:@[\]|]{1,64}@[\p{L}\p{N}_-][\p{L}\p{N}._-]{0,253}[\p{L}\p{N}]`;
/** X.400 systems write `DDA:SMTP=a@b.example`. */
const TYPE = "(?:SMTP=)?";
/** A line about an address begins with it, perhaps as an item of a list. */
const ENTRY = new RegExp(
  String.raw`^[\s>*•-]{0,40}(?:"[^"<]{0,100}"\s*)?["'<[]{0,2}${TYPE}(${ADDRESS})(?=$|[\s>"':,;[(<.\]])`,
  "iu",
);
const ANYWHERE = new RegExp(String.raw`(?<![^\s<>"'(),;:[\]|])${TYPE}(${ADDRESS})`, "giu");
/** A reply in a transcript: `550 5.1.1 <a@b.example>... User unknown`. */
const REPLY_ABOUT = new RegExp(String.raw`^\s{0,10}[45]\d\d[\s-](?:[45]\.\d\.\d{1,3}\s)?<(${ADDRESS})>`, "u");
const COMMAND = new RegExp(String.raw`\brcpt to:\s?<?(${ADDRESS})`, "iu");
const ACCEPTED = /^\W{0,10}25\d\b/;
/** Lines about the message or about whom to contact. */
const ASIDE =
  /^\s*(?:from|sender|subject|message-id|original sender|mail from|reply-to)\s*:|contact|assistance|please send/i;
/** From here on, a sentence or list has addresses that may be used instead. */
const SUGGESTED =
  /\b(?:e\.g\.|for (?:example|instance)|such as|did you mean|alternat|instead|similar|(?:please|should|can|may|could) (?:try|use|write to|resend|forward|reach)|try(?:ing)? (?:e-?mailing|sending|using|one)|(?:new|current|correct) (?:e-?mail )?address|moved to|changed to|now at)/i;
/** Words for those who are listed below a heading. */
const RECIPIENTS = /recipient|address|follow|adress|destinat|empfänger|indirizz|endereç|direcc|адрес|地址|宛先/iu;
/** The one before an address makes it the sender's. */
const FROM = /(?<!generated |expanded )\b(?:from|sender)\b\W{1,3}$/i;

/** A line, and what the heading above it or the sentence that it continues says of the addresses in it. */
interface Listed {
  text: string;
  as: "failed" | "suggested" | undefined;
}

/**
 * A heading is the part of a paragraph that ends in a colon. It is about the lines below, up to the next paragraph that
 * is no item of a list.
 */
function readLists(texts: readonly string[]): Listed[] {
  let paragraph = "";
  let as: Listed["as"];
  let [isBegun, isAfterEmpty] = [false, false];
  return texts.map((text) => {
    if (text.trim() === "") {
      paragraph = "";
      isAfterEmpty = true;
      return { text, as };
    }
    const isEntry = ENTRY.test(text);
    const sentence = paragraph.split(SENTENCE_END).at(-1) ?? "";
    paragraph = `${paragraph} ${text}`.slice(-LONGEST_HEADING);
    if (text.endsWith(":") && !isEntry) {
      const isAnnouncing =
        FAILURE.test(paragraph) && RECIPIENTS.test(paragraph) && listNoticeAddresses(paragraph).length === 0;
      as = SUGGESTED.test(paragraph) ? "suggested" : isAnnouncing ? "failed" : undefined;
      [isBegun, isAfterEmpty] = [false, false];
      return { text, as: undefined };
    }
    if (isBegun && isAfterEmpty && !isEntry) as = undefined;
    [isBegun, isAfterEmpty] = [as !== undefined, false];
    return { text, as: isEntry && SUGGESTED.test(sentence) ? "suggested" : as };
  });
}

/** `e.g.` ends no sentence. */
const SENTENCE_END = /(?<=[^.\s][^.\s][.!?])\s/;
const LONGEST_HEADING = 500;
/** A line that has only a local part, as of a screen name. */
const LOCAL = /^\s+([\w.+-]{1,64})$/;

/** The addresses of a text, except senders'. */
const listNoticeAddresses = (text: string): string[] =>
  [...text.matchAll(ANYWHERE)].flatMap(({ 1: address = "", index }) =>
    FROM.test(text.slice(Math.max(0, index - 20), index)) || !splitAddress(address).domain.includes(".")
      ? []
      : [address],
  );

/** The addresses in sentences that speak of failure; where there are none, the only address that is not suggested. */
function addressesInProse(texts: readonly string[]): string[] {
  const paragraphs = texts.join("\n").split("\n\n");
  const sentences = paragraphs.flatMap((paragraph) => paragraph.split(SENTENCE_END));
  const said = sentences.map((sentence) => sentence.split(SUGGESTED, 1)[0] ?? "");
  const isFailure = (sentence: string) => [FAILURE, NEGATION, CODE].some((words) => words.test(sentence));
  const failed = said.filter(isFailure).flatMap(listNoticeAddresses);
  if (failed.length > 0) return failed;
  const all = said.flatMap(listNoticeAddresses);
  return new Set(all.map(normalizeAddress)).size === 1 ? all : [];
}

/** The failed addresses, found by the most reliable way that yields any. */
function namedIn(
  lines: readonly NoticeLine[],
  { failed, others, domain, addressed }: NoticeContext,
): Pick<ReportedRecipient, "recipient" | "assumed">[] {
  const excluded = new Set(others.map(normalizeAddress));
  const listed = readLists(lines.map(({ text }) => text)).filter(
    ({ text, as }) => as !== "suggested" && !ASIDE.test(text),
  );
  const texts = listed.map(({ text }) => text);
  const announced = listed.flatMap(({ text, as }) => (as === "failed" ? [text] : []));
  const entries = texts.map((text) => ENTRY.exec(text)?.[1]);
  const isRecipient = (address: string | undefined) => !excluded.has(normalizeAddress(address ?? ""));
  const ways: (() => (string | undefined)[])[] = [
    () => failed.map(readReportedAddress),
    () => entries.filter(isRecipient),
    () => texts.map((text) => REPLY_ABOUT.exec(text)?.[1]),
    () => texts.map((text, i) => (ACCEPTED.test(texts[i + 1] ?? "") ? undefined : COMMAND.exec(text)?.[1])),
    () => announced.flatMap(listNoticeAddresses).filter(isRecipient),
    () => announced.map((text) => LOCAL.exec(text)?.[1]).map((local) => local && `${local}@${domain}`),
    () => addressesInProse(texts).filter(isRecipient),
  ];
  for (const way of ways) {
    const found = distinct(way());
    if (found.length > 0) return found.map((recipient) => ({ recipient }));
  }
  const [only, ...more] = distinct(addressed);
  if (only !== undefined && more.length === 0) return [{ recipient: only, assumed: true }];
  // No other address is left: the sender wrote to themselves.
  return distinct(entries).map((recipient) => ({ recipient }));
}

/** The valid addresses, each once, up to the limit. */
function distinct(addresses: readonly (string | undefined)[]): string[] {
  const found = new Map<string, string>();
  for (const address of addresses) {
    const key = normalizeAddress(address ?? "");
    if (address !== undefined && key !== undefined && !found.has(key)) found.set(key, address);
  }
  return [...found.values()].slice(0, MAX_RECIPIENTS);
}

const GENERATED_FROM = new RegExp(
  String.raw`\((?:ultimately )?(?:generated|expanded) from:?\s{0,3}<?(${ADDRESS})>?\)`,
  "iu",
);
/** Lines after an address that may be about it. */
const MAX_ABOUT = 30;

/** Claims of a notice about one recipient. */
interface Statement {
  /** The address that the sender used. */
  origin?: string;
  reply?: string;
  /** The server gave it in reply to RCPT. */
  isAtRcpt: boolean;
}

/** A refusal in reply to RCPT, in the words of Postfix, Exim, sendmail's transcript and qmail. */
const AT_RCPT =
  /\(in reply to RCPT TO command\)|\bafter RCPT TO:|>>> ?RCPT TO:\s?\S{1,320} <<< 5\d\d|\bdoes not like recipient\b/i;

/** `isAlone`: the notice names no other recipient, so any reply in it is about this one. */
function findRecipientStatement(
  { recipient }: ReportedRecipient,
  lines: readonly NoticeLine[],
  isAlone: boolean,
): Statement {
  const key = normalizeAddress(recipient);
  const about = lines.flatMap((line, index) => {
    if (line.entry === undefined || line.entry !== key) return [];
    const next = lines.slice(index + 1, index + MAX_ABOUT).findIndex(({ entry }) => entry !== undefined);
    return lines.slice(index, next < 0 ? index + MAX_ABOUT : index + 1 + next);
  });
  const origin = about.map(({ text }) => GENERATED_FROM.exec(text)?.[1]).find((address) => address !== undefined);
  const lower = recipient.toLowerCase();
  const mentions = lines.filter(({ text }) => text.toLowerCase().includes(lower));
  const reply = replyIn(about) ?? replyIn(mentions) ?? (isAlone ? replyIn(lines) : undefined) ?? findWordedReply(about);
  const statement = (isAlone ? lines : about).map(({ text }) => text.trim()).join(" ");
  return {
    isAtRcpt: AT_RCPT.test(statement),
    ...(origin === undefined ? {} : { origin }),
    ...(reply === undefined ? {} : { reply }),
  };
}

/** Lines over which a reply may continue. */
const MAX_REPLY = 5;

/** A reply without codes: the first lines that are more than a ruled line or the heading of the returned message. */
function findWordedReply(lines: readonly NoticeLine[]): string | undefined {
  const worded = lines.map(({ text }) => text).filter((text) => /^[^-=*|]*\p{L}/u.test(text));
  return formatDiagnostic(worded.slice(0, MAX_REPLY).join(" "));
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
    return formatDiagnostic(paragraph.slice(0, end < 0 ? MAX_REPLY : end).join(" "));
  }
  return undefined;
}
