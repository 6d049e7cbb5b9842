/**
 * Reads messages from an account on another server, over IMAP (RFC 9051), and changes nothing there.
 *
 * For each folder it fetches Message-IDs and sizes first, then the messages that are not here yet, a few megabytes at a
 * time. So a repeated import costs little, and an interrupted one continues. When reading breaks off, it connects again,
 * after growing waits, and continues behind the last message that came.
 *
 * The server is a stranger's: lines, literals, tokens and answers have bounds before the library parses them, and so have the
 * octets and the time of each command.
 *
 * Gmail shows a message in a folder for each of its labels. There, only the folders that together hold all mail are
 * read, and labels tell the rest.
 */
import { isIP } from "node:net";
import { type FetchMessageObject, ImapFlow, type ListResponse } from "imapflow";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { BIT_OF, IMAP_FLAGS } from "../mailbox/imap/uids.ts";
import { firstMessageId } from "../message/message-id.ts";
import { createConfiguredHostLookup } from "../net/configured-names.ts";
import { errorCode, NO_CONNECTION } from "../net/http-client.ts";
import type { Folder } from "../store/schema.ts";
import { addImapFlag, addImapKeywords, chooseGmailFolder, type Marks, readGmailLabel } from "./marks.ts";
import { type FoundMessage, filingForFolderName, type KnownMessage, type NotFound, type Source } from "./sources.ts";

export interface ImapAccount {
  host: string;
  port: number;
  user: string;
  password?: string;
  /** Asked for anew at each connection, in place of a password: tokens expire while mail is read. */
  token?(): Promise<string>;
  /** TLS from the first byte; otherwise STARTTLS, which is required. */
  implicitTls: boolean;
}

export interface ImapRequest {
  account: ImapAccount;
  /** Full names of the folders to read; undefined reads all. */
  folders?: readonly string[];
  /** Bytes of one message to hold in memory. */
  mostBytes: number;
  /** True if the mailbox has a message of that Message-ID and size. */
  isKnown(messageId: string, size: number): boolean;
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "authorities">;
  log: Log;
}

const PORTS = { "imaps:": 993, "imap:": 143 } as const;

/** `imaps://user@host[:port]`; undefined for anything else. TLS names the host without a final dot (RFC 6066 §3). */
export function readImapAccountUrl(text: string): ImapAccount | undefined {
  const url = URL.parse(text);
  if (!url || (url.protocol !== "imaps:" && url.protocol !== "imap:")) return undefined;
  if (url.hostname === "" || url.username === "" || url.password !== "") return undefined;
  let user: string;
  try {
    user = decodeURIComponent(url.username);
  } catch {
    return undefined;
  }
  return {
    host: url.hostname.replace(/^\[|\]$|\.$/g, ""),
    port: Number(url.port) || PORTS[url.protocol],
    user,
    implicitTls: url.protocol === "imaps:",
  };
}

/** Octets of a line, and the words and numbers in one answer: the longest is that to a SEARCH of SEARCHED_AT_ONCE. */
const LONGEST_LINE = 256 * 1024;
const MOST_TOKENS = 20_000;
/** Messages that one SEARCH looks among. */
const SEARCHED_AT_ONCE = 5_000;
const MOST_MESSAGES = 5_000_000;
const MOST_FOLDERS = 10_000;
/** Octets of the answers to a command; to one that lists folders, and beside the text of a message. */
const MOST_OCTETS = 512 * 1024;
const MOST_OF_LIST = 4 * 1024 * 1024;
/** Errors of the library about what is too large: another connection would bring the same. */
const TOO_LARGE = new Set(["LineTooLarge", "LiteralTooLarge", "ResponseTooLarge", "TooManyTokens"]);
/** Error of the library about a server without mechanisms for tokens. */
const NO_TOKENS = "Unsupported authentication mechanism";
/** A command has this time, and as much more as its answers take at the least rate of an octet a millisecond. */
const PATIENCE_MS = 120_000;
const LOOK_MS = 1_000;

/** Headers in one FETCH. */
const HEADERS_AT_ONCE = 500;
/** Bytes of messages in one FETCH. */
const BYTES_AT_ONCE = 4 * 1024 * 1024;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** Failures at the same message before the import gives up, because the server may break on that message. */
const MOST_FAILURES = 8;

const FOLDER_OF_USE: Readonly<Record<string, Folder>> = {
  "\\Inbox": "inbox",
  "\\Sent": "sent",
  "\\Drafts": "drafts",
  "\\Junk": "spam",
  "\\Trash": "trash",
  "\\Archive": "archive",
  "\\All": "archive",
};

/** A folder of the account, and how far it has been read. */
interface FolderProgress {
  path: string;
  source: Source;
  uidValidity: bigint | undefined;
  lastUid: number;
}

/** @throws AppError unauthorized for a refused password or token, not_found for a folder that is not there, upstream_failed */
export async function* findImapAccountMessages(
  request: ImapRequest,
): AsyncGenerator<FoundMessage | NotFound | KnownMessage> {
  const { account, runtime, log } = request;
  let remaining: FolderProgress[] | undefined;
  let lostAt = "";
  let wait = 0;
  for (let failures = 0; remaining === undefined || remaining.length > 0; ) {
    if (wait > 0) await pause(runtime, wait);
    let connected: ImapFlow | undefined;
    try {
      const client = await connect(request);
      connected = client;
      remaining ??= await foldersToRead(client, request);
      const isGmail = client.capabilities.has("X-GM-EXT-1");
      for (let folder = remaining[0]; folder; folder = remaining[0]) {
        yield* read(client, folder, isGmail, request);
        remaining.shift();
      }
      await within(client, request, MOST_OCTETS, client.logout());
    } catch (error) {
      if (error instanceof AppError) throw error;
      // A token that was taken before is asked for again.
      const isRefused = (error as { authenticationFailed?: boolean }).authenticationFailed === true;
      if (isRefused && !(account.token && remaining)) {
        const what = account.token ? "token" : "password";
        throw new AppError("unauthorized", `${account.host} refuses the user ${account.user} or the ${what}`);
      }
      const reason = error instanceof Error ? error.message : String(error);
      if (account.token && reason === NO_TOKENS) {
        throw new AppError(
          "unauthorized",
          `${account.host} takes no tokens: it offers neither OAUTHBEARER nor XOAUTH2`,
        );
      }
      if (TOO_LARGE.has(errorCode(error) ?? "")) throw tooMuch(account, reason);
      const at = `${remaining?.length} ${remaining?.[0]?.lastUid}`;
      if (at !== lostAt) failures = 0;
      lostAt = at;
      if (remaining === undefined || ++failures > MOST_FAILURES) {
        throw new AppError("upstream_failed", `${account.host} does not work: ${reason}`, { cause: error });
      }
      wait = Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS);
      log.warn("reading broke off: connecting again", { host: account.host, retryInMs: wait, reason });
    } finally {
      // Also when the caller stops reading.
      connected?.close();
    }
  }
}

/** Connects to the first of the server's addresses that takes the connection. */
async function connect(request: ImapRequest): Promise<ImapFlow> {
  const addresses = await createConfiguredHostLookup(request.runtime)(request.account.host);
  const token = await request.account.token?.();
  for (let turn = 0; ; turn++) {
    const client = clientFor(request, addresses[turn] ?? "", token);
    // The pending call rejects with the same error.
    client.on("error", () => {});
    try {
      await within(client, request, MOST_OCTETS, client.connect());
      return client;
    } catch (error) {
      client.close();
      if (turn + 1 >= addresses.length || !NO_CONNECTION.has(errorCode(error) ?? "")) throw error;
    }
  }
}

function clientFor(
  { account, runtime, mostBytes }: ImapRequest,
  address: string,
  accessToken: string | undefined,
): ImapFlow {
  const { host, port, user, password: pass, implicitTls } = account;
  return new ImapFlow({
    host: address,
    ...(isIP(host) === 0 && { servername: host }),
    port,
    auth: { user, ...(accessToken === undefined ? { pass } : { accessToken }) },
    secure: implicitTls,
    ...(!implicitTls && { doSTARTTLS: true }),
    tls: {
      // RFC 6066 §3: an address is not sent as the server name. The certificate is still checked against it.
      ...(isIP(host) !== 0 && { servername: "" }),
      ...(runtime.authorities && { ca: [...runtime.authorities] }),
    },
    disableAutoIdle: true,
    disableCompression: true,
    maxLineLength: LONGEST_LINE,
    // Servers miscount the sizes that they tell.
    maxLiteralSize: mostBytes + MOST_OF_LIST,
    maxResponseSize: mostBytes + MOST_OF_LIST + LONGEST_LINE,
    maxResponseTokens: MOST_TOKENS,
    logger: false,
  });
}

const tooMuch = ({ host }: ImapAccount, what: string): AppError =>
  new AppError("upstream_failed", `${host} does not work: ${what}`);

/**
 * Resolves as the work of a command does, unless it takes more than `octets`, or comes too slowly: then the connection ends.
 */
async function within<T>(
  client: ImapFlow,
  { account, runtime: { now, setTimer } }: ImapRequest,
  octets: number,
  work: Promise<T>,
): Promise<T> {
  const [startedAt, before] = [now(), client.stats().received];
  const refused = Promise.withResolvers<never>();
  function look(): void {
    const received = client.stats().received - before;
    const isSlow = now() - startedAt > PATIENCE_MS + received;
    if (received <= octets && !isSlow) {
      cancelTimer = setTimer(look, LOOK_MS);
      return;
    }
    refused.reject(isSlow ? new Error("its answers come too slowly") : tooMuch(account, "its answers have no end"));
    client.close();
  }
  let cancelTimer = setTimer(look, LOOK_MS);
  // Of the two, the other one's failure is nobody's.
  work.catch(() => {});
  try {
    return await Promise.race([work, refused.promise]);
  } finally {
    cancelTimer();
  }
}

/** The answers to a FETCH of `count` messages, with `octets` at most for each. */
async function* eachWithin(
  client: ImapFlow,
  request: ImapRequest,
  { count, octets }: { count: number; octets: number },
  answers: AsyncIterable<FetchMessageObject>,
): AsyncGenerator<FetchMessageObject> {
  const iterator = answers[Symbol.asyncIterator]();
  try {
    for (let seen = 0; ; seen++) {
      const { done, value } = await within(client, request, octets, iterator.next());
      if (done) return;
      // A server may tell of other messages meanwhile.
      if (seen > 2 * count + SEARCHED_AT_ONCE) throw tooMuch(request.account, "its answers have no end");
      yield value;
    }
  } finally {
    // The error that ended it is the one to tell.
    await iterator.return?.().catch(() => {});
  }
}

/** The folders to read. \All comes last, so that a message in several folders is filed by a more specific one. */
async function foldersToRead(client: ImapFlow, request: ImapRequest): Promise<FolderProgress[]> {
  const { folders, account } = request;
  const all = await within(client, request, MOST_OF_LIST, client.list());
  if (all.length > MOST_FOLDERS) throw tooMuch(account, `it lists ${all.length} folders`);
  const listed = all.filter(({ flags }) => !flags.has("\\Noselect") && !flags.has("\\NonExistent"));
  const missing = folders?.find((path) => !listed.some((folder) => folder.path === path));
  if (missing !== undefined) throw new AppError("not_found", `${account.host} has no folder ${missing}`);
  const isGmail = client.capabilities.has("X-GM-EXT-1") && listed.some(({ specialUse }) => specialUse === "\\All");
  const isRead = ({ path, specialUse = "" }: ListResponse): boolean => {
    if (folders) return folders.includes(path);
    if (isGmail) return ["\\All", "\\Junk", "\\Trash"].includes(specialUse);
    return specialUse !== "\\Flagged";
  };
  const isAll = ({ specialUse }: ListResponse): number => (specialUse === "\\All" ? 1 : 0);
  return listed
    .filter(isRead)
    .sort((a, b) => isAll(a) - isAll(b))
    .map((folder) => ({
      path: folder.path,
      source: toFolderSource(folder, account),
      uidValidity: undefined,
      lastUid: 0,
    }));
}

function toFolderSource({ path, delimiter, specialUse = "" }: ListResponse, { host }: ImapAccount): Source {
  const name = delimiter ? path.split(delimiter).join("/") : path;
  return { path: `${host} ${name}`, format: "imap", ...filingForFolderName(name, FOLDER_OF_USE[specialUse]) };
}

async function* read(
  client: ImapFlow,
  folder: FolderProgress,
  isGmail: boolean,
  request: ImapRequest,
): AsyncGenerator<FoundMessage | KnownMessage> {
  const { mostBytes, isKnown } = request;
  const { source } = folder;
  const mailbox = await within(client, request, MOST_OCTETS, client.mailboxOpen(folder.path, { readOnly: true }));
  // RFC 9051 §2.3.1.1: a folder that was made anew has other UIDs.
  if (folder.uidValidity !== undefined && folder.uidValidity !== mailbox.uidValidity) folder.lastUid = 0;
  folder.uidValidity = mailbox.uidValidity;
  const uids = await uidsIn(client, folder, mailbox.exists, request);
  for (let at = 0; at < uids.length; at += HEADERS_AT_ONCE) {
    const portion = uids.slice(at, at + HEADERS_AT_ONCE);
    const asked = { uid: true, size: true, headers: ["message-id"] };
    const sizes = new Map<number, number>();
    let known = 0;
    const answers = client.fetch(portion, asked, { uid: true });
    const bounds = { count: portion.length, octets: MOST_OCTETS };
    for await (const { uid, size = 0, headers } of eachWithin(client, request, bounds, answers)) {
      const messageId = firstMessageId(headers?.toString("latin1").replace(/^[^:]*:/, "") ?? "");
      if (messageId !== undefined && isKnown(messageId, size)) known++;
      else sizes.set(uid, size);
    }
    for (let i = 0; i < known; i++) yield { source, known: true };
    for (const some of splitIntoPortions(sizes, mostBytes)) yield* fetchSome(client, folder, some, isGmail, request);
    folder.lastUid = portion.at(-1) ?? folder.lastUid;
  }
}

/**
 * The UIDs above the last one that came, in order. Looks for them in portions, from the end, so that none is passed over when
 * others are removed meanwhile.
 */
async function uidsIn(
  client: ImapFlow,
  { path, lastUid }: FolderProgress,
  exists: number,
  request: ImapRequest,
): Promise<number[]> {
  const { account } = request;
  if (exists > MOST_MESSAGES) throw tooMuch(account, `it says that ${path} has ${exists} messages`);
  const uids = new Set<number>();
  for (let last = exists; last > 0; last -= SEARCHED_AT_ONCE) {
    const among = { seq: `${Math.max(1, last - SEARCHED_AT_ONCE + 1)}:${last}`, uid: `${lastUid + 1}:*` };
    const found = await within(client, request, MOST_OCTETS, client.search(among, { uid: true }));
    if (!Array.isArray(found)) throw new Error(`the server refuses to search ${path}`);
    if (found.length > SEARCHED_AT_ONCE) throw tooMuch(account, `it finds more in ${path} than was asked for`);
    // `n:*` always includes the last UID.
    for (const uid of found) if (uid > lastUid) uids.add(uid);
  }
  return [...uids].sort((a, b) => a - b);
}

/** Groups UIDs into portions of BYTES_AT_ONCE; a larger message is a portion of its own. */
function* splitIntoPortions(sizes: ReadonlyMap<number, number>, mostBytes: number): Generator<Map<number, number>> {
  let portion = new Map<number, number>();
  let bytes = 0;
  for (const [uid, size] of [...sizes].sort(([a], [b]) => a - b)) {
    const counted = Math.min(size, mostBytes);
    if (portion.size > 0 && bytes + counted > BYTES_AT_ONCE) {
      yield portion;
      portion = new Map();
      bytes = 0;
    }
    portion.set(uid, size);
    bytes += counted;
  }
  if (portion.size > 0) yield portion;
}

async function* fetchSome(
  client: ImapFlow,
  folder: FolderProgress,
  sizes: ReadonlyMap<number, number>,
  isGmail: boolean,
  request: ImapRequest,
): AsyncGenerator<FoundMessage> {
  const { mostBytes } = request;
  const isTooLarge = [...sizes.values()].some((size) => size > mostBytes);
  const asked = {
    uid: true,
    flags: true,
    internalDate: true,
    // The beginning of a message that is too large, enough to report it like any other.
    source: isTooLarge ? { maxLength: 1_024 } : true,
    ...(isGmail && { labels: true }),
  };
  const answers = client.fetch([...sizes.keys()], asked, { uid: true });
  const largest = Math.min(mostBytes, Math.max(...sizes.values()));
  const bounds = { count: sizes.size, octets: 2 * largest + MOST_OF_LIST };
  const come = new Set<number>();
  for await (const message of eachWithin(client, request, bounds, answers)) {
    // Of others it tells as well, such as of changed flags.
    if (!sizes.has(message.uid) || come.has(message.uid)) continue;
    if (message.source !== undefined) come.add(message.uid);
    const { uid, source: content = Buffer.alloc(0), internalDate } = message;
    const at = internalDate === undefined ? Number.NaN : new Date(internalDate).getTime();
    yield {
      source: folder.source,
      place: `message ${uid}`,
      content,
      unquoted: true,
      size: isTooLarge ? (sizes.get(uid) ?? content.byteLength) : content.byteLength,
      marks: readImapMarks(message, isGmail ? folder.source : undefined),
      ...(Number.isNaN(at) ? {} : { receivedAt: at }),
    };
    folder.lastUid = Math.max(folder.lastUid, uid);
  }
}

/** `gmail`: the folder, if the account is Gmail's, whose labels tell the rest. */
function readImapMarks(
  { flags = new Set(), labels = new Set() }: FetchMessageObject,
  gmail: Source | undefined,
): Marks {
  const marks: Marks = { labels: [], read: flags.has("\\Seen") };
  if (flags.has("\\Flagged")) marks.starred = true;
  if (flags.has("\\Draft")) marks.folder = "drafts";
  if (flags.has("\\Deleted")) marks.deleted = true;
  if (!gmail) {
    addImapKeywords(marks, flags);
    return marks;
  }
  for (const flag of flags) {
    const bit = BIT_OF.get(flag.toLowerCase()) ?? 0;
    if (bit !== IMAP_FLAGS.deleted) addImapFlag(marks, bit);
  }
  const folders = new Set<Folder>();
  for (const label of labels) readGmailLabel(marks, folders, label.replace(/^\\/, ""));
  chooseGmailFolder(marks, folders);
  // Gmail has no labels for trash and spam.
  if (gmail.folder === "trash" || gmail.folder === "spam") marks.folder = gmail.folder;
  return marks;
}
