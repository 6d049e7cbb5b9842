/**
 * Finds the mail to import at a path: mbox files, Maildirs with their subfolders (Maildir++ and nested), single
 * messages in files, and folders and archives of all these as mail programs and providers write them. Links within are
 * not followed. `unwrap` restores a found message to the bytes that travelled over SMTP.
 */
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { IMAP_FLAGS } from "../mailbox/imap/uids.ts";
import { parseDate } from "../message/date.ts";
import { type HeaderField, listHeaders, readHeaders } from "../message/headers.ts";
import { type Entry, type NamedFiles, OWN_FILES, readPieces } from "../store/named-files.ts";
import type { Folder } from "../store/schema.ts";
import { isTar, isZip, KEYWORDS, openTar, openZip } from "./archives.ts";
import {
  addImapFlag,
  addImapKeywords,
  type ExportMark,
  findExportMarks,
  findFolderByName,
  type Marks,
  makeLabelName,
  takeHeaderMarks,
} from "./marks.ts";
import { isMbox, readMbox } from "./mbox.ts";
import { isGzip, type MailFile, readUnpackedBeginning, type Tree } from "./tree.ts";

/** A unit that the import counts: an mbox, a folder of a Maildir, a folder of messages, a folder of an account. */
export interface Source {
  path: string;
  format: "mbox" | "maildir" | "messages" | "imap";
  /** Folder for all of its mail, from its name; undefined if the name tells none. */
  folder?: Folder;
  sent?: boolean;
  labels: string[];
}

/** A message as found, with the data that its source keeps beside it. */
export interface FoundMessage {
  source: Source;
  /** Position in the source: a file's name, or an offset in the mbox. */
  place: string;
  content: Buffer;
  /** Bytes; more than `content` has if the message is too large to read whole. */
  size: number;
  /** The mbox does not quote: lines that begin with ">From " belong to the message. */
  unquoted: boolean;
  /** For an mbox; its date is the time of arrival. */
  fromLine?: string;
  /** Modification time of the message's own file, epoch ms. */
  writtenAt?: number;
  /** Time of arrival that the source keeps, epoch ms. */
  receivedAt?: number;
  /** From a file name in a Maildir or the flags of an account. */
  marks?: Omit<Marks, "labels"> & Partial<Pick<Marks, "labels">>;
}

/** A message that the mailbox has already. */
export interface KnownMessage {
  source: Source;
  known: true;
}

/** A path that has nothing to import, and why. */
export interface NotFound {
  path: string;
  reason: string;
}

const HEADER = /^(?:From [^\n]*\n)?[!-9;-~]+[ \t]*:/;

const ARCHIVE = /\.(?:zip|tgz|tar(?:\.gz)?)$/i;

const CONTAINER = /^(?:\.?maildir|mail|takeout|local folders)$/i;

/** Messages that lie together, and what reads them. */
interface Batch {
  path: string;
  read(): AsyncGenerator<FoundMessage | NotFound>;
}

function createFileTree(files: NamedFiles): Tree {
  async function open(path: string): Promise<MailFile> {
    const file = await files.open(path);
    return { ...file, pieces: () => readPieces(file) };
  }
  return {
    list: files.list,
    open,
    async isMbox(path) {
      const file = await open(path);
      try {
        return isMbox(await readUnpackedBeginning(file));
      } finally {
        await file.close();
      }
    },
  };
}

/**
 * All mail at `path`, which is absolute. `mostBytes`: of one message in memory. `files`: who opens it. @throws errors of the
 * file system if there is no `path`
 */
export async function* findMessagesInFiles(
  path: string,
  mostBytes: number,
  files = OWN_FILES,
): AsyncGenerator<FoundMessage | NotFound> {
  const tree = createFileTree(files);
  const kind = await files.getFileKind(path);
  if (kind === "folder") {
    yield* readAll(walk(tree, path, [], mostBytes));
    return;
  }
  // A pipe is read once; an import looks at a file several times.
  if (kind === "other") {
    yield { path, reason: "neither a file nor a folder" };
    return;
  }
  const file = await tree.open(path);
  try {
    const beginning = await readUnpackedBeginning(file);
    const isArchive = isTar(beginning) || isZip(beginning);
    const folder = findFolderByName(mailFolderName(path));
    const named = folder === undefined ? { labels: [] } : { folder, sent: folder === "sent", labels: [] };
    if (isArchive) yield* archived(tree, path, mostBytes);
    else if (isMbox(beginning)) yield* mbox(tree, { path, format: "mbox", ...named }, mostBytes);
    else if (HEADER.test(beginning.toString("latin1"))) {
      yield* ownFile(tree, { path, format: "messages", labels: [] }, path, mostBytes);
    } else yield { path, reason: "neither an mbox, nor a Maildir, nor a message, nor a zip or tar archive of these" };
  } finally {
    await file.close();
  }
}

/** The mail in an archive. */
async function* archived(tree: Tree, path: string, mostBytes: number): AsyncGenerator<FoundMessage | NotFound> {
  try {
    const file = await tree.open(path);
    try {
      const { read } = file;
      if (!read) throw new Error("an archive in an archive is not read: unpack it");
      if (isZip(await read(0, 4))) {
        yield* readAll(walk(await openZip({ ...file, read }, path), path, [], mostBytes));
        return;
      }
      const tar = await openTar(file, path);
      try {
        const batches = await Array.fromAsync(walk(tar, path, [], mostBytes));
        const batchOrder = (batch: Batch | NotFound): number => ("read" in batch ? tar.getEntryNumber(batch.path) : -1);
        yield* readAll(batches.sort((a, b) => batchOrder(a) - batchOrder(b)));
      } finally {
        await tar.close();
      }
      if (tar.fault !== undefined) throw new Error(tar.fault);
    } finally {
      await file.close();
    }
  } catch (error) {
    yield { path, reason: describeError(error) };
  }
}

async function* readAll(
  batches: AsyncIterable<Batch | NotFound> | Iterable<Batch | NotFound>,
): AsyncGenerator<FoundMessage | NotFound> {
  for await (const batch of batches) {
    if ("reason" in batch) yield batch;
    else yield* batch.read();
  }
}

/** `names`: names of the folders, from the outermost to this one. */
function createFolderSource(path: string, format: Source["format"], names: readonly string[]): Source {
  const name = names.join("/");
  return { path, format, ...(name === "" ? { labels: [] } : filingForFolderName(name)) };
}

/** How mail from a folder of that name is filed: in the same folder here, else in the archive, with the name as a label. */
export function filingForFolderName(
  name: string,
  folder = findFolderByName(name),
): Pick<Source, "folder" | "sent" | "labels"> {
  if (folder !== undefined) return { folder, sent: folder === "sent", labels: [] };
  return { folder: "archive", labels: [makeLabelName(name)].filter((label) => label !== "") };
}

/** The entries of a folder; or the reason why it cannot be read. */
async function listFolderEntries(tree: Tree, path: string): Promise<Entry[] | NotFound> {
  try {
    return await tree.list(path);
  } catch (error) {
    return { path, reason: describeError(error) };
  }
}

async function* walk(
  tree: Tree,
  path: string,
  names: readonly string[],
  mostBytes: number,
): AsyncGenerator<Batch | NotFound> {
  const entries = await listFolderEntries(tree, path);
  if ("reason" in entries) {
    yield entries;
    return;
  }
  const folders = entries.filter(({ kind }) => kind === "folder").map(({ name }) => name);
  const parts = ["cur", "new"].filter((part) => folders.includes(part));
  const isMaildir = parts.length > 0;
  if (isMaildir) yield* maildir(tree, path, names, parts, mostBytes);
  const messages = createFolderSource(path, "messages", names);
  for (const { name } of isMaildir ? [] : entries.filter(({ kind }) => kind === "file")) {
    const file = join(path, name);
    if (name.startsWith(".") || /\.(?:msf|dat|json|html|ini)$/i.test(name)) continue;
    try {
      if (/\.eml(?:\.gz)?$/i.test(name)) {
        yield { path: file, read: () => ownFile(tree, messages, file, mostBytes) };
      } else if (ARCHIVE.test(name)) {
        yield { path: file, read: () => archived(tree, file, mostBytes) };
      } else if (await tree.isMbox(file)) {
        // Apple Mail keeps a folder as NAME.mbox/mbox.
        const own = name === "mbox" && names.length > 0 ? names : [...names, mailFolderName(name)];
        yield { path: file, read: () => mbox(tree, createFolderSource(file, "mbox", own), mostBytes) };
      }
    } catch (error) {
      yield { path: file, reason: describeError(error) };
    }
  }
  for (const name of folders) {
    if (isMaildir && ["cur", "new", "tmp"].includes(name)) continue;
    // The outer folder in which a mail program or provider keeps all mail gives no name to its mail.
    if (names.length === 0 && CONTAINER.test(name)) {
      yield* walk(tree, join(path, name), [], mostBytes);
      continue;
    }
    // Maildir++: `.Work.Clients` beside `cur` of the inbox.
    const inner = name.startsWith(".") ? name.slice(1).split(".") : [mailFolderName(name)];
    yield* walk(tree, join(path, name), [...names, ...inner.map(decodeFolderName)], mostBytes);
  }
}

/** A folder's name: the name of its file without the suffixes that mail programs add. */
const mailFolderName = (path: string): string =>
  basename(path)
    .replace(/\.gz$/i, "")
    .replace(/\.(?:mbox|mbx|sbd|mboxrd)$/i, "");

/** Bytes of a list of keywords; 26 of 100 characters have some 3 kB. */
const LONGEST_KEYWORDS = 64 * 1024;

/** Dovecot's names for the letters `a` to `z` among the flags of a folder's messages, in that order. */
async function keywordsIn(tree: Tree, path: string): Promise<string[]> {
  const keywords: string[] = [];
  const file = await tree.open(path).catch(() => undefined);
  if (!file) return keywords;
  try {
    if (file.size > LONGEST_KEYWORDS) return keywords;
    const text = Buffer.concat(await Array.fromAsync(file.pieces())).toString();
    for (const [, number, keyword = ""] of text.matchAll(/^(\d{1,2}) (\S{1,100})$/gm))
      keywords[Number(number)] = keyword;
    return keywords;
  } finally {
    await file.close();
  }
}

/** The flags in the name of a message's file (https://cr.yp.to/proto/maildir.html; Dovecot has keywords as small letters). */
function marksIn(name: string, keywords: readonly string[]): Marks {
  const flags = /[:;!]2,([A-Za-z]{0,60})$/.exec(name)?.[1] ?? "";
  const marks: Marks = { labels: [], read: flags.includes("S") };
  if (flags.includes("F")) marks.starred = true;
  if (flags.includes("D")) marks.folder = "drafts";
  if (flags.includes("T")) marks.folder = "trash";
  if (flags.includes("R")) addImapFlag(marks, IMAP_FLAGS.answered);
  if (flags.includes("P")) addImapFlag(marks, IMAP_FLAGS.forwarded);
  const letters = [...flags].filter((letter) => letter >= "a");
  addImapKeywords(
    marks,
    letters.map((letter) => keywords[letter.charCodeAt(0) - "a".charCodeAt(0)] ?? ""),
  );
  return marks;
}

/**
 * When a message of a Maildir arrived, epoch ms. The name of its file begins with the second in which it was written there, and
 * the file keeps an earlier time for one that was copied there, unless the whole Maildir was copied without its times.
 */
function deliveredAt(name: string, writtenAt: number): { receivedAt?: number } {
  const [, seconds] = /^(\d{9,10})\./.exec(name) ?? [];
  return seconds === undefined ? {} : { receivedAt: Math.min(Number(seconds) * 1_000, writtenAt) };
}

async function* maildir(
  tree: Tree,
  path: string,
  names: readonly string[],
  parts: readonly string[],
  mostBytes: number,
): AsyncGenerator<Batch | NotFound> {
  const source = createFolderSource(path, "maildir", names.length === 0 ? ["inbox"] : names);
  const keywords = await keywordsIn(tree, join(path, KEYWORDS));
  for (const part of parts) {
    const entries = await listFolderEntries(tree, join(path, part));
    if ("reason" in entries) {
      yield entries;
      continue;
    }
    for (const { name, kind } of entries) {
      if (kind !== "file" || name.startsWith(".")) continue;
      const marks = part === "cur" ? marksIn(name, keywords) : { labels: [], read: false };
      const file = join(path, part, name);
      yield {
        path: file,
        async *read() {
          for await (const found of ownFile(tree, source, file, mostBytes)) {
            yield "reason" in found ? found : { ...found, marks, ...deliveredAt(name, found.writtenAt ?? 0) };
          }
        },
      };
    }
  }
}

async function* mbox(tree: Tree, source: Source, mostBytes: number): AsyncGenerator<FoundMessage | NotFound> {
  try {
    const file = await tree.open(source.path);
    try {
      for await (const { offset, ...message } of readMbox(file, mostBytes)) {
        yield { ...message, source, place: `byte ${offset}` };
      }
    } finally {
      await file.close();
    }
  } catch (error) {
    yield { path: source.path, reason: describeError(error) };
  }
}

async function* ownFile(
  tree: Tree,
  source: Source,
  path: string,
  mostBytes: number,
): AsyncGenerator<FoundMessage | NotFound> {
  try {
    const opened = await tree.open(path);
    try {
      const { size, modifiedAt } = opened;
      const found = { source, place: basename(path), unquoted: true, writtenAt: modifiedAt };
      if (size > mostBytes) {
        yield { ...found, content: await readUnpackedBeginning(opened), size };
        return;
      }
      const file = Buffer.concat(await Array.fromAsync(opened.pieces()));
      const content = isGzip(file) ? gunzipSync(file, { maxOutputLength: mostBytes }) : file;
      yield { ...found, content, size: content.byteLength };
    } finally {
      await opened.close();
    }
  } catch (error) {
    yield { path, reason: describeError(error) };
  }
}

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/* Names of IMAP folders on disk: modified UTF-7 (RFC 3501 §5.1.3). */

/** Leaves text that is no modified UTF-7 as it is. */
const decodeFolderName = (name: string): string =>
  name.replace(/&([A-Za-z0-9+,]*)-/g, (_, encoded: string) => {
    if (encoded === "") return "&";
    const bytes = Buffer.from(encoded.replaceAll(",", "/"), "base64");
    return bytes
      .subarray(0, bytes.length & ~1)
      .swap16()
      .toString("utf16le");
  });

/** A found message as it travelled. */
export interface Unwrapped {
  bytes: Buffer;
  fields: HeaderField[];
  marks: Marks;
  /** When it arrived at its source, epoch ms; undefined if unknown. */
  receivedAt: number | undefined;
}

/** Limits for reading the header fields that tell where a message has been. */
const MOST_HEADER = { fields: 500, bytes: 128 * 1024 };

/**
 * Undoes mbox quoting, removes the marks of mail programs, and ends lines with CRLF. The same message is thus
 * recognised whether it came over SMTP, from an mbox file or from a Maildir. Of what our export wrote, it gives the very octets.
 */
export function unwrapImportedMessage(
  found: Pick<FoundMessage, "content" | "fromLine" | "unquoted" | "receivedAt" | "writtenAt" | "marks">,
): Unwrapped {
  const whole = found.content.toString("latin1");
  const { text, marks } = unwrapText(whole, found);
  const bytes = text === whole ? found.content : Buffer.from(text, "latin1");
  const { fields } = readHeaders(bytes, 0, undefined, MOST_HEADER);
  const receivedAt =
    found.receivedAt ??
    parseDate(found.fromLine?.replace(/^From \S*/, "") ?? "") ??
    findArrivalTime(fields) ??
    found.writtenAt;
  return { bytes, fields, marks: { ...marks, ...found.marks }, receivedAt };
}

function unwrapText(
  whole: string,
  { fromLine, unquoted }: Pick<FoundMessage, "fromLine" | "unquoted">,
): { text: string; marks: Marks } {
  if (fromLine === undefined) return { text: withCrlf(whole), marks: { labels: [] } };
  const ours = findExportMarks(whole);
  if (ours) {
    const { exported } = ours;
    return { text: readExported(whole, ours), marks: { labels: [], ...(exported && { exported }) } };
  }
  const end = endOfHeader(whole);
  const { header, marks } = takeHeaderMarks(whole.slice(0, end));
  return { text: withCrlf(header + (unquoted ? whole.slice(end) : unquote(whole.slice(end)))), marks };
}

/**
 * The octets below the marks of our export, which quotes also lines of the header, ends what has no line end, and writes LF for
 * CRLF if there are no other line ends.
 */
function readExported(
  whole: string,
  { length, exported }: { length: number; exported: ExportMark | undefined },
): string {
  const hasCrlf = whole[length - 2] === "\r";
  const quoted = whole.slice(length);
  const text = unquote(hasCrlf ? quoted : quoted.replace(/\r?\n/g, "\r\n"));
  const { octets = text.length } = exported ?? {};
  return text.length === octets + 2 ? text.slice(0, octets) : text;
}

/** Index after the line break of the last field. */
function endOfHeader(text: string): number {
  const end = /\n\r?\n/.exec(text)?.index;
  return end === undefined ? text.length : end + 1;
}

/** Undoes mboxrd quoting: drops one `>` of each line that has `>`s before "From ". */
const unquote = (body: string): string => (body.includes(">From ") ? body.replace(/(^|\n)>(>*From )/g, "$1$2") : body);

/** Gives all lines CRLF if the first has LF alone; leaves other texts, because they may hold binary content. */
function withCrlf(text: string): string {
  const first = text.indexOf("\n");
  return first < 0 || text[first - 1] === "\r" ? text : text.replace(/\r?\n/g, "\r\n");
}

/** The date of the topmost Received field (RFC 5321 §4.4). */
function findArrivalTime(fields: readonly HeaderField[]): number | undefined {
  const newest = listHeaders(fields, "received")[0];
  return newest === undefined ? undefined : parseDate(newest.slice(newest.lastIndexOf(";") + 1));
}
