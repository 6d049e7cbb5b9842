/**
 * Messages out of an account on another server, over IMAP (RFC 9051), without changing anything there.
 *
 * Of each folder first only Message-IDs and sizes are asked for, and then the messages that are not here yet, a few
 * megabytes at a time: an import that is repeated costs little, and one that broke off goes on. A lost connection is made
 * again, later each time; a folder then goes on behind the last message that came.
 *
 * Gmail shows each message in every folder whose label it has: there, only the folders that have all of them are read, and
 * labels say the rest.
 */
import { isIP } from "node:net";
import { type FetchMessageObject, ImapFlow, type ListResponse } from "imapflow";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { firstMessageId } from "../message/message-id.ts";
import type { Folder } from "../store/schema.ts";
import { addKeywords, type Marks, readGmailLabel, settleGmailLabels } from "./marks.ts";
import type { FoundMessage, KnownMessage, NotFound, Source } from "./sources.ts";
import { folderNamed, labelNamed } from "./sources.ts";

export interface ImapAccount {
  host: string;
  port: number;
  user: string;
  password: string;
  /** TLS from the first byte; otherwise STARTTLS, which is insisted on. */
  implicitTls: boolean;
}

export interface ImapRequest {
  account: ImapAccount;
  /** Only these, by their full names; all of them when left out. */
  folders?: readonly string[];
  /** Of a message in memory. */
  mostBytes: number;
  /** Whether the mailbox has a message of that Message-ID and size already. */
  isKnown(messageId: string, size: number): boolean;
  runtime: Pick<Runtime, "setTimer" | "authorities">;
  log: Log;
}

const PORTS = { "imaps:": 993, "imap:": 143 } as const;

/** `imaps://user@host[:port]`; undefined for anything else. */
export function readAccount(text: string): Omit<ImapAccount, "password"> | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== "imaps:" && url.protocol !== "imap:")) return undefined;
  if (url.hostname === "" || url.username === "" || url.password !== "") return undefined;
  return {
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port) || PORTS[url.protocol],
    user: decodeURIComponent(url.username),
    implicitTls: url.protocol === "imaps:",
  };
}

/** Headers asked for at once, and bytes of messages. */
const HEADERS_AT_ONCE = 500;
const BYTES_AT_ONCE = 4 * 1024 * 1024;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 60_000;
/** Times that a connection may be lost at the same place: a message there may be what the server stumbles over. */
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

/** A folder there, and how far it has been read. */
interface Place {
  path: string;
  source: Source;
  uidValidity: bigint | undefined;
  lastUid: number;
}

/** @throws AppError unauthorized for a refused password, not_found for a folder that is not there, upstream_failed */
export async function* findInAccount(request: ImapRequest): AsyncGenerator<FoundMessage | NotFound | KnownMessage> {
  const { account, runtime, log } = request;
  let places: Place[] | undefined;
  let lostAt = "";
  for (let failures = 0; places === undefined || places.length > 0; ) {
    const client = clientFor(request);
    // Also told by what is under way.
    client.on("error", () => {});
    try {
      await client.connect();
      places ??= await placesOf(client, request);
      const isGmail = client.capabilities.has("X-GM-EXT-1");
      for (let place = places[0]; place; place = places[0]) {
        yield* read(client, place, isGmail, request);
        places.shift();
      }
      await client.logout();
    } catch (error) {
      client.close();
      if (error instanceof AppError) throw error;
      if ((error as { authenticationFailed?: boolean }).authenticationFailed) {
        throw new AppError("unauthorized", `${account.host} refuses the user ${account.user} or the password`);
      }
      const reason = error instanceof Error ? error.message : String(error);
      const at = `${places?.length} ${places?.[0]?.lastUid}`;
      if (at !== lostAt) failures = 0;
      lostAt = at;
      if (places === undefined || ++failures > MOST_FAILURES) {
        throw new AppError("upstream_failed", `${account.host} does not work: ${reason}`, { cause: error });
      }
      const wait = Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), LONGEST_WAIT_MS);
      log.warn("connection lost, and made again", { host: account.host, retryInMs: wait, reason });
      await new Promise<void>((resolve) => runtime.setTimer(resolve, wait));
    }
  }
}

function clientFor({ account, runtime }: ImapRequest): ImapFlow {
  const { host, port, user, password: pass, implicitTls } = account;
  return new ImapFlow({
    ...{ host, port, auth: { user, pass }, secure: implicitTls },
    ...(!implicitTls && { doSTARTTLS: true }),
    tls: {
      // An address is no name to be sent (RFC 6066 §3); the certificate is held against it all the same.
      ...(isIP(host) !== 0 && { servername: "" }),
      ...(runtime.authorities && { ca: [...runtime.authorities] }),
    },
    disableAutoIdle: true,
    logger: false,
  });
}

/** The folders to read, the most telling first: what lies in several is placed by the first. */
async function placesOf(client: ImapFlow, { folders, account }: ImapRequest): Promise<Place[]> {
  const listed = (await client.list()).filter(({ flags }) => !flags.has("\\Noselect") && !flags.has("\\NonExistent"));
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
    .map((folder) => ({ path: folder.path, source: sourceOf(folder, account), uidValidity: undefined, lastUid: 0 }));
}

function sourceOf({ path, delimiter, specialUse = "" }: ListResponse, { host }: ImapAccount): Source {
  const name = delimiter ? path.split(delimiter).join("/") : path;
  const folder = FOLDER_OF_USE[specialUse] ?? folderNamed(name);
  const base = { path: `${host} ${name}`, format: "imap" } as const;
  if (folder) return { ...base, folder, sent: folder === "sent", labels: [] };
  return { ...base, folder: "archive", labels: [labelNamed(name)].filter((label) => label !== "") };
}

async function* read(
  client: ImapFlow,
  place: Place,
  isGmail: boolean,
  { mostBytes, isKnown }: ImapRequest,
): AsyncGenerator<FoundMessage | KnownMessage> {
  const { source } = place;
  const mailbox = await client.mailboxOpen(place.path, { readOnly: true });
  // RFC 9051 §2.3.1.1: the numbers of a folder made anew are others.
  if (place.uidValidity !== undefined && place.uidValidity !== mailbox.uidValidity) place.lastUid = 0;
  place.uidValidity = mailbox.uidValidity;
  if (mailbox.exists === 0) return;
  const found = await client.search({ uid: `${place.lastUid + 1}:*` }, { uid: true });
  // `n:*` has the last one in any case.
  const uids = (Array.isArray(found) ? found : []).filter((uid) => uid > place.lastUid).sort((a, b) => a - b);
  for (let at = 0; at < uids.length; at += HEADERS_AT_ONCE) {
    const portion = uids.slice(at, at + HEADERS_AT_ONCE);
    const asked = { uid: true, size: true, headers: ["message-id"] };
    const sizes = new Map<number, number>();
    let known = 0;
    for await (const { uid, size = 0, headers } of client.fetch(portion, asked, { uid: true })) {
      const messageId = firstMessageId(headers?.toString("latin1").replace(/^[^:]*:/, "") ?? "");
      if (messageId !== undefined && isKnown(messageId, size)) known++;
      else sizes.set(uid, size);
    }
    for (let i = 0; i < known; i++) yield { source, known: true };
    for (const some of portionsOf(sizes, mostBytes)) yield* fetchSome(client, place, some, { isGmail, mostBytes });
    place.lastUid = portion.at(-1) ?? place.lastUid;
  }
}

/** Numbers whose messages make up a few megabytes; a larger one by itself. */
function* portionsOf(sizes: ReadonlyMap<number, number>, mostBytes: number): Generator<Map<number, number>> {
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
  place: Place,
  sizes: ReadonlyMap<number, number>,
  { isGmail, mostBytes }: { isGmail: boolean; mostBytes: number },
): AsyncGenerator<FoundMessage> {
  const isTooLarge = [...sizes.values()].some((size) => size > mostBytes);
  const asked = {
    ...{ uid: true, flags: true, internalDate: true },
    // The beginning of one that is too large is asked for, to be told of like any other.
    source: isTooLarge ? { maxLength: 1_024 } : true,
    ...(isGmail && { labels: true }),
  };
  for await (const message of client.fetch([...sizes.keys()], asked, { uid: true })) {
    const { uid, source: content = Buffer.alloc(0), internalDate } = message;
    const at = internalDate === undefined ? Number.NaN : new Date(internalDate).getTime();
    yield {
      ...{ source: place.source, place: `message ${uid}`, content, unquoted: true },
      size: isTooLarge ? (sizes.get(uid) ?? content.byteLength) : content.byteLength,
      marks: marksOf(message, isGmail ? place.source : undefined),
      ...(Number.isNaN(at) ? {} : { receivedAt: at }),
    };
    place.lastUid = Math.max(place.lastUid, uid);
  }
}

/** `gmail`: the folder of an account there, whose labels say the rest. */
function marksOf({ flags = new Set(), labels = new Set() }: FetchMessageObject, gmail: Source | undefined): Marks {
  const marks: Marks = { labels: [], read: flags.has("\\Seen") };
  if (flags.has("\\Flagged")) marks.starred = true;
  if (flags.has("\\Draft")) marks.folder = "drafts";
  if (flags.has("\\Deleted")) marks.deleted = true;
  if (!gmail) {
    addKeywords(marks, flags);
    return marks;
  }
  const folders = new Set<Folder>();
  for (const label of labels) readGmailLabel(marks, folders, label.replace(/^\\/, ""));
  settleGmailLabels(marks, folders);
  // Of trash and spam no label tells.
  if (gmail.folder === "trash" || gmail.folder === "spam") marks.folder = gmail.folder;
  return marks;
}
