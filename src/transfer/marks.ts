/**
 * Marks: header fields that mail programs add to messages in an mbox file, to keep read, starred, labels and folder.
 * They are no part of the message, so they are read and removed.
 *
 * Status, X-Status and X-Keywords are UW IMAP's and Dovecot's, X-Mozilla-Status Thunderbird's, X-GM-THRID and
 * X-Gmail-Labels Google Takeout's. Marks that could make a message look sent (X-Gmail-Labels and our X-Mailroom-Export)
 * are believed only at the very top of the header, where the program that wrote the file puts them and no sender can.
 * X-Mailroom-Export is the last of our marks: all below it is the message.
 */

import { BIT_OF, FLAG_BITS, IMAP_FLAGS } from "../mailbox/imap/uids.ts";
import { decodeWords } from "../message/headers.ts";
import { type AuthVerdicts, FOLDERS, type Folder } from "../store/schema.ts";

/** Undefined fields are unknown. */
export interface Marks {
  /** Folder of its conversation. */
  folder?: Folder;
  /** True if the message was in sent mail, and perhaps also in another folder. */
  sent?: boolean;
  read?: boolean;
  starred?: boolean;
  /** Bits of IMAP_FLAGS. */
  imapFlags?: number;
  labels: string[];
  /** True if the message was deleted, and the file was not compacted since. */
  deleted?: boolean;
  /** The value of X-Mailroom-Export. */
  exported?: ExportMark;
}

const FIELD_END = String.raw`[ \t]*:([^\n]*(?:\n[ \t][^\n]*)*)(?:\n|$)`;
const MARKS = new RegExp(
  `^(status|x-status|x-keywords|x-uid|x-imap|x-imapbase|content-length|x-mozilla-status2?|x-mozilla-keys|x-gmail-labels|x-gm-thrid)${FIELD_END}`,
  "gim",
);
/** The fields that Takeout puts at the top. */
const TAKEOUT = new RegExp(`^(?:x-(?:gm-thrid|gmail-labels)${FIELD_END})*`, "i");
/** The fields that our export puts at the top. The last is one line, since a message may begin with an indented one. */
const EXPORT = new RegExp(
  `^(?:(?:status|x-status|x-keywords)${FIELD_END})*x-mailroom-export[ \\t]*:([^\\n]*)(?:\\n|$)`,
  "i",
);

const MOZILLA_READ = 0x0001;
const MOZILLA_REPLIED = 0x0002;
const MOZILLA_MARKED = 0x0004;
const MOZILLA_EXPUNGED = 0x0008;
const MOZILLA_FORWARDED = 0x1000;

/** Gmail's own labels that are neither a folder nor a label here. */
const GMAIL_NOISE = /^(?:important|opened|chats?|muted|category .*|kategorie .*|wichtig|geoffnet|geöffnet)$/i;
const GMAIL_UNREAD = /^(?:unread|ungelesen|non lus?|no leidos?|no leídos?|da leggere|não lid[ao]s?|ongelezen)$/i;
const GMAIL_STARRED = /^(?:starred|markiert|suivis|destacados?|speciali|com estrela|met ster)$/i;

/** The marks that our export has put at the top of a message; undefined without. `header`: as of takeHeaderMarks, or more. */
export function findExportMarks(header: string): { length: number; exported: ExportMark | undefined } | undefined {
  const ours = EXPORT.exec(header);
  return ours ? { length: ours[0].length, exported: readExportMark(unfolded(ours.at(-1))) } : undefined;
}

/** Reads the marks of a header and removes them. `header`: latin1, LF or CRLF, with or without its final empty line. */
export function takeHeaderMarks(header: string): { header: string; marks: Marks } {
  const marks: Marks = { labels: [] };
  const top = TAKEOUT.exec(header)?.[0].length ?? 0;
  const rest = header.replace(MARKS, (field: string, name: string, value: string, offset: number) => {
    const lower = name.toLowerCase();
    if (lower === "x-gmail-labels" && offset >= top) return field;
    readMark(marks, lower, unfolded(value));
    return "";
  });
  return { header: rest, marks };
}

/** Characters of a mark: a sender may have written fields of those names, too. */
const LONGEST_MARK = 64 * 1024;

const unfolded = (folded = ""): string => folded.slice(0, LONGEST_MARK).replace(/\r?\n/g, "").trim();

function readMark(marks: Marks, name: string, value: string): void {
  if (name === "status") marks.read = value.includes("R");
  else if (name === "x-status") {
    if (value.includes("A")) addImapFlag(marks, IMAP_FLAGS.answered);
    if (value.includes("F")) marks.starred = true;
    if (value.includes("T")) marks.folder = "drafts";
    if (value.includes("D")) marks.folder = "trash";
  } else if (name === "x-keywords" || name === "x-mozilla-keys") addImapKeywords(marks, value.split(/\s+/));
  else if (name === "x-mozilla-status") {
    const flags = Number.parseInt(value, 16) || 0;
    marks.read = (flags & MOZILLA_READ) !== 0;
    if (flags & MOZILLA_MARKED) marks.starred = true;
    if (flags & MOZILLA_REPLIED) addImapFlag(marks, IMAP_FLAGS.answered);
    if (flags & MOZILLA_FORWARDED) addImapFlag(marks, IMAP_FLAGS.forwarded);
    if (flags & MOZILLA_EXPUNGED) marks.deleted = true;
  } else if (name === "x-gmail-labels") readGmailLabels(marks, value);
}

export function addImapFlag(marks: Pick<Marks, "imapFlags">, flag: number): void {
  marks.imapFlags = (marks.imapFlags ?? 0) | flag;
}

/** Thunderbird's names for the tags that it has from the beginning. */
const THUNDERBIRD: Readonly<Record<string, string>> = {
  $label1: "Important",
  $label2: "Work",
  $label3: "Personal",
  $label4: "To Do",
  $label5: "Later",
};

/**
 * Adds IMAP flags and keywords: those that IMAP has here as flags, Thunderbird's tags as labels, too, others as labels, except
 * more of those that begin with `$` and some that programs set.
 */
export function addImapKeywords(marks: Marks, keywords: Iterable<string>): void {
  for (const keyword of keywords) {
    const lower = keyword.toLowerCase();
    const [flag, tag] = [lower === "forwarded" ? IMAP_FLAGS.forwarded : BIT_OF.get(lower), THUNDERBIRD[lower]];
    if (flag !== undefined && flag !== IMAP_FLAGS.deleted) addImapFlag(marks, flag);
    if (tag !== undefined) marks.labels.push(tag);
    if (/^\$?junk$/.test(lower)) marks.folder ??= "spam";
    if (flag !== undefined || lower === "") continue;
    if (!/^(?:\$.*|\\.*|notjunk|junkrecorded|receiptchecked)$/.test(lower)) marks.labels.push(makeLabelName(keyword));
  }
}

const GMAIL_LABEL = /\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)|([^,]*)(?:,|$)/gy;

/** `Inbox,Unread,"A, B",=?UTF-8?Q?Caf=C3=A9?=` */
function readGmailLabels(marks: Marks, value: string): void {
  marks.read = true;
  const names = [...decodeWords(value).matchAll(GMAIL_LABEL)].map(([, quoted, plain = ""]) =>
    (quoted?.replace(/\\(.)/g, "$1") ?? plain).trim(),
  );
  const folders = new Set<Folder>();
  for (const name of names) readGmailLabel(marks, folders, name);
  chooseGmailFolder(marks, folders);
}

/** Applies one of Gmail's labels to `marks`; a label that is a folder goes to `folders`. */
export function readGmailLabel(marks: Marks, folders: Set<Folder>, name: string): void {
  const folder = findFolderByName(name);
  if (GMAIL_UNREAD.test(name)) marks.read = false;
  else if (GMAIL_STARRED.test(name)) marks.starred = true;
  else if (folder) folders.add(folder);
  else if (!GMAIL_NOISE.test(name) && makeLabelName(name) !== "") marks.labels.push(makeLabelName(name));
}

/** Picks the one folder to file into. A message to oneself is in both the inbox and sent mail. */
export function chooseGmailFolder(marks: Marks, folders: ReadonlySet<Folder>): void {
  if (folders.has("sent")) marks.sent = true;
  const order: readonly Folder[] = ["trash", "spam", "drafts", "inbox", "sent"];
  marks.folder = order.find((folder) => folders.has(folder)) ?? "archive";
}

/* Folder names of other programs, and the folders here. Mail of any other folder goes to the archive, with a label. */

/** Names in the languages that mail programs and providers ship with, folded: lower case, without accents. */
const NAMES: Readonly<Record<Folder, string>> = {
  inbox:
    "inbox|posteingang|boite de reception|bandeja de entrada|recibidos|posta in arrivo|caixa de entrada|postvak in",
  sent: "sent|sent items|sent mail|sent messages|sent-mail|outbox|gesendet|gesendete objekte|gesendete elemente|messages envoyes|elements envoyes|envoyes|enviados|elementos enviados|posta inviata|inviati|itens enviados|verzonden items|verzonden",
  drafts: "draft|drafts|entwurfe|brouillons|borradores|bozze|rascunhos|concepten",
  archive:
    "archive|archives|archived|all mail|archiv|archiviert|alle nachrichten|tous les messages|todos|all mail including spam and trash",
  spam: "spam|junk|junk e-mail|junk email|junk mail|bulk mail|spamverdacht|courrier indesirable|correo no deseado|posta indesiderata|lixo eletronico|ongewenste e-mail",
  trash:
    "trash|bin|deleted|deleted items|deleted messages|papierkorb|geloschte objekte|geloschte elemente|corbeille|elements supprimes|papelera|elementos eliminados|cestino|posta eliminata|lixeira|prullenbak|verwijderde items",
};

const FOLDER_OF = new Map(
  Object.entries(NAMES).flatMap(([folder, names]) => names.split("|").map((name) => [name, folder as Folder])),
);

const folded = (name: string): string =>
  name
    .normalize("NFKD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase()
    .replace(/[\s_]+/g, " ")
    .trim();

/** The folder here for a usual folder name. `INBOX/Sent` and `[Gmail]/Trash` count by their last part. */
export function findFolderByName(path: string): Folder | undefined {
  const names = path.split("/").map(folded);
  const last = names.at(-1) ?? "";
  const isTop = names.slice(0, -1).every((name) => /^(?:inbox|\[(?:gmail|google mail)\])$/.test(name));
  return isTop ? FOLDER_OF.get(last) : undefined;
}

/** Characters of a label (rules: Labels). */
const LONGEST_LABEL = 60;

/** A label made of the name of a folder or label; "" if no character remains. */
export const makeLabelName = (name: string): string =>
  name
    .replace(/^(?:INBOX|\[(?:Gmail|Google Mail)\])\//i, "")
    .replace(/[\p{Cc}\s]+/gu, " ")
    .trim()
    .slice(0, LONGEST_LABEL)
    .toWellFormed();

/*
 * The field X-Mailroom-Export: what the mailbox knows of a message beyond its bytes, as JSON. With it, an import of an
 * export gives the same mailbox.
 */

export interface ExportMark {
  kind: "received" | "sent" | "draft" | "notice";
  /** This and the next three belong to the conversation. */
  folder: Folder;
  starred: boolean;
  labels: string[];
  /** Folder of a message that a mail app has moved alone. */
  ownFolder?: Folder;
  /** False for one that is not flagged, of a conversation that is starred. */
  flagged?: boolean;
  /** threads.id: the messages of a conversation stay together. */
  conversation: string;
  snoozedUntil?: number;
  read: boolean;
  /** Bits of IMAP_FLAGS. */
  imapFlags?: number;
  /** Times are epoch ms. */
  filedAt: number;
  deliveredAt?: number;
  receivedOn?: string;
  /** Sign-in name of the user. */
  sentBy?: string;
  fingerprint: string;
  /** Bytes as received. */
  size: number;
  auth?: AuthVerdicts;
  /** Value of Authentication-Results. */
  results?: string;
  /** Bytes of the message below the marks; absent in files of earlier versions. */
  octets?: number;
}

/** JSON in ASCII, on one line. */
export const writeExportMark = (mark: ExportMark): string =>
  JSON.stringify(mark).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const isImportable = (flags: unknown): boolean =>
  Number.isInteger(flags) &&
  ((flags as number) & IMAP_FLAGS.deleted) === 0 &&
  (flags as number) >= 0 &&
  (flags as number) < 1 << FLAG_BITS.length;

const KINDS = ["received", "sent", "draft", "notice"] as const;

/** Undefined for a text that this version cannot have written. */
function readExportMark(text: string): ExportMark | undefined {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { kind, folder, ownFolder, starred, flagged, labels, conversation, read, filedAt, fingerprint, size } = value;
  const isWhole =
    KINDS.includes(kind as never) &&
    FOLDERS.includes(folder as never) &&
    (ownFolder === undefined || FOLDERS.includes(ownFolder as never)) &&
    Array.isArray(labels) &&
    labels.every((label) => typeof label === "string") &&
    typeof conversation === "string" &&
    /^thr_[0-9a-z]{1,40}$/.test(conversation) &&
    typeof fingerprint === "string" &&
    /^[0-9a-f]{64}$/.test(fingerprint) &&
    [starred, read, flagged ?? true].every((flag) => typeof flag === "boolean") &&
    [filedAt, size].every(Number.isSafeInteger) &&
    [value.snoozedUntil, value.deliveredAt].every((time) => time === undefined || Number.isSafeInteger(time)) &&
    (value.imapFlags === undefined || isImportable(value.imapFlags)) &&
    [value.receivedOn, value.sentBy, value.results].every((text) => text === undefined || typeof text === "string") &&
    (value.auth === undefined || isVerdicts(value.auth)) &&
    (value.octets === undefined || Number.isSafeInteger(value.octets));
  return isWhole && (size as number) >= 0 ? (value as unknown as ExportMark) : undefined;
}

function isVerdicts(value: unknown): value is AuthVerdicts {
  if (typeof value !== "object" || value === null) return false;
  const { spf, dkim, dmarc } = value as Record<string, unknown>;
  return [spf, dkim, dmarc].every((verdict) => typeof verdict === "string" && /^[a-z]{1,20}$/.test(verdict));
}
