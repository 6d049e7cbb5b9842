/**
 * Prepares the octets of a message for keeping (rules: Octets): without the attachments that are blobs anyway, packed, with
 * what mail apps ask for most. Uses no database, so that a parser can run it.
 */
import { domainToASCII } from "node:url";
import { type FieldLines, isBccField, isIndentedAt, readFieldLines, withoutRanges } from "../../message/headers.ts";
import { formatBodyStructure, formatImapEnvelope, openMessageContent } from "../../message/imap-data.ts";
import type { ParsedMessage } from "../../message/parse.ts";
import {
  cutSkeleton,
  type EncodedPart,
  HTML,
  LARGEST_TEXT,
  packSkeleton,
  type Skeleton,
  TEXT,
  unpackSkeleton,
} from "../../message/skeleton.ts";
import type { Blobs } from "../../store/blobs.ts";
import type { HiddenOctets } from "../../store/schema.ts";

/** The octets of a message as they are kept. */
export interface KeptOctets {
  /** Number of all octets. */
  size: number;
  /** SHA-256 of all octets, and of those that everybody sees, where these are fewer. */
  digest: Uint8Array;
  servedDigest?: Uint8Array;
  hidden: HiddenOctets[];
  /** ENVELOPE as everybody sees it; absent if it is long. */
  envelope?: string;
  /** BODYSTRUCTURE; absent if the author is told another one than everybody else. */
  structure?: string;
  /** The packed skeleton, or the blob that has it where it is large. */
  skeleton: Uint8Array | { blob: string };
}

/** The octets of a message that has been read, and where its attachments are in them. */
export interface CutOctets {
  bytes: Uint8Array;
  skeleton: Skeleton;
}

/** Lines of this server that go on top of a message. */
export interface TopLines {
  lines: Uint8Array;
  /** Octets at their beginning that are a Bcc field. */
  bcc?: number;
  /** The server whose Authentication-Results among the message's own are not served, since somebody else wrote them (RFC 8601 §5). */
  hostname?: string;
}

export const NO_TOP: TopLines = { lines: new Uint8Array() };

/** Bytes of a packed skeleton that is kept in a row; a larger one is a blob. */
export const LARGEST_IN_ROW = 64 * 1024;
/** Most characters of an envelope that is kept. */
export const LONGEST_KEPT = 4_000;

/** Cuts attachments and texts out of the octets of a message. */
export function cutOctets(bytes: Uint8Array, message: ParsedMessage): CutOctets {
  const files = message.attachments.flatMap(({ source, content }, position) =>
    source ? { ...source, position, content } : [],
  );
  return { bytes, skeleton: cutSkeleton(bytes, [...files, ...locateTexts(bytes, message, message)]) };
}

/** Finds out where the stored text and HTML of a message may stand in its octets as they are. `found`: by parsing these. */
export function locateTexts(
  bytes: Uint8Array,
  found: Pick<ParsedMessage, "textStart" | "htmlStart">,
  { text, html }: { text: string; html?: string | undefined },
): EncodedPart[] {
  const locate = (position: number, text: string | undefined, start: number | undefined) => {
    if (text === undefined || start === undefined || text.length > LARGEST_TEXT) return [];
    // It would be lost where HTML is unpacked.
    if (text.startsWith("\ufeff")) return [];
    const content = toLines(text);
    let at = start;
    while (bytes[at] === CR || bytes[at] === LF) at++;
    return { position, start: at, end: at + content.length, content };
  };
  return [locate(TEXT, text, found.textStart), locate(HTML, html, found.htmlStart)].flat();
}

const [CR, LF] = [0x0d, 0x0a];

/** A stored text as it stands in octets, if it came as it is. */
export const toLines = (text: string): Buffer => Buffer.from(text.replaceAll("\n", "\r\n"));

/** Packs octets below lines of this server. Rejects with the error of the file system if a large one cannot be written. */
export async function keepOctets(
  { bytes, skeleton }: CutOctets,
  { lines, bcc = 0, hostname }: TopLines,
  blobs: Pick<Blobs, "write">,
): Promise<KeptOctets> {
  const top = lines.byteLength;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const hidden: HiddenOctets[] = bcc === 0 ? [] : [[0, bcc, "bcc"]];
  for (const field of readFieldLines(buffer)) {
    const isBelowOurs = top > bcc && field.start === 0 && isIndentedAt(buffer, 0);
    const isResults = isBelowOurs || (hostname !== undefined && isResultsOf(buffer, field, hostname));
    const why = isBccField(field) ? "bcc" : isResults ? "results" : undefined;
    if (why !== undefined) hide(hidden, [top + field.start, top + field.end, why]);
  }
  const size = top + bytes.byteLength;
  const below = {
    bytes: Buffer.concat([lines, skeleton.bytes]),
    cuts: skeleton.cuts.map((cut) => ({ ...cut, at: cut.at + top })),
  };
  const packed = packSkeleton(below);
  const unpacked = unpackSkeleton(packed, size);
  if (!below.bytes.equals(unpacked.bytes) || !Bun.deepEquals(below.cuts, unpacked.cuts))
    throw new Error("octets were not packed as they are");
  const whole = top === 0 ? buffer : Buffer.concat([lines, buffer]);
  // Lines on top and lines that are hidden may change where the header ends, and what exceeds the limits.
  const served = openMessageContent(withoutHidden(whole, hidden));
  const envelope = formatImapEnvelope(served.bytes.toString("latin1", 0, served.root.bodyStart));
  const structure = formatBodyStructure(served, true);
  const hiddenFromAuthor = hideFrom(hidden, true);
  const isTold =
    hiddenFromAuthor.length === hidden.length ||
    formatBodyStructure(openMessageContent(withoutHidden(whole, hiddenFromAuthor)), true) === structure;
  return {
    size,
    digest: digestOctets(whole),
    hidden,
    ...(hidden.length > 0 && { servedDigest: digestOctets(served.bytes) }),
    ...(envelope.length <= LONGEST_KEPT && { envelope }),
    ...(isTold && { structure }),
    skeleton: packed.byteLength <= LARGEST_IN_ROW ? packed : { blob: await blobs.write(packed) },
  };
}

/** Ranges that are hidden, at most; of a message with more, nothing of the header is served from the last one on. */
export const MOST_HIDDEN = 100;

function hide(hidden: HiddenOctets[], range: HiddenOctets): void {
  const last = hidden.at(-1);
  const continues = last && last[1] === range[0] && last[2] === range[2];
  if (last && (continues || hidden.length >= MOST_HIDDEN)) last[1] = range[1];
  else hidden.push(range);
}

/**
 * True for a field Authentication-Results that some reader may take for that server's (RFC 8601 §2.2): in doubt it is. Nested
 * comments and quoted pairs before the server's name are skipped as RFC 5322 §3.2.2 has them.
 */
function isResultsOf(buffer: Buffer, { name, value, end }: FieldLines, hostname: string): boolean {
  if (name !== "authentication-results") return false;
  const text = buffer.toString("latin1", value, end);
  let depth = 0;
  let at = 0;
  for (; at < text.length; at++) {
    const character = text[at] as string;
    if (character === "\\" && depth > 0) at++;
    else if (character === "(") depth++;
    else if (character === ")" && depth > 0) depth--;
    else if (depth === 0 && /[!-~]/.test(character)) break;
  }
  const server = text.slice(at, at + LONGEST_SERVER);
  const [, quoted, word = ""] = /^(?:"((?:[^"\\]|\\.)*)"|([^\s;(,/"]*))/.exec(server) ?? [];
  const given = (quoted?.replace(/\\(.)/g, "$1") ?? word).replace(/\.$/, "");
  if (given === "") return true;
  return domainToASCII(Buffer.from(given, "latin1").toString()) === domainToASCII(hostname);
}

/** Octets of the name of a server, quoted. */
const LONGEST_SERVER = 1_000;

/** Those of the ranges that the author of the message, or anybody else, does not see: the author alone sees a Bcc (rules: Bcc). */
export const hideFrom = (hidden: readonly HiddenOctets[], isAuthor: boolean): readonly HiddenOctets[] =>
  isAuthor ? hidden.filter(([, , why]) => why !== "bcc") : hidden;

export const digestOctets = (octets: Uint8Array): Buffer => new Bun.CryptoHasher("sha256").update(octets).digest();

/** Octets without those that are hidden from a reader. */
export const withoutHidden = (octets: Buffer, hidden: readonly HiddenOctets[]): Buffer =>
  hidden.length === 0
    ? octets
    : withoutRanges(
        octets,
        hidden.map(([start, end]) => ({ start, end })),
      );
