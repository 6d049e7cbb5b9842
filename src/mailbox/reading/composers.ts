/**
 * Makes the octets of a stored message from what the store has of it: those that were kept, or else the file of `/raw` under
 * this server's fields, which is kept then (missing-octets.ts). Without the database, since a parser does it for what is large.
 */
import { composeMessage } from "../../message/compose.ts";
import type { TypeParameters } from "../../message/content-type.ts";
import {
  type Content,
  formatBodyStructure,
  formatImapEnvelope,
  type ImapPart,
  openMessageContent,
} from "../../message/imap-data.ts";
import { unpackText } from "../../message/reading.ts";
import { DamagedSkeleton, HTML, LARGEST_TEXT, readOctets, TEXT, unpackSkeleton } from "../../message/skeleton.ts";
import type { HiddenOctets } from "../../store/schema.ts";
import { digestOctets, toLines, withoutHidden } from "../filing/keep-octets.ts";

/** Parts of a message from which its file is composed. */
export interface StoredParts {
  id: string;
  /** [name, value] in order. */
  headers: readonly (readonly [name: string, value: string])[];
  text: string;
  /** HTML, packed by packText. */
  html?: Uint8Array;
  files: readonly StoredPart[];
}

interface StoredPart {
  filename: string;
  unnamed: boolean;
  contentType: string;
  parameters: TypeParameters;
  inline: boolean;
  contentId: string | null;
  alternative: boolean;
  blob: string;
  /** Bytes. */
  size: number;
}

/** Octets that were kept, and what it takes to put them together. */
export interface KeptParts {
  /** The packed skeleton, or the blob that has it. */
  skeleton: Uint8Array | string;
  /** SHA-256 of all octets. */
  digest: Uint8Array;
  /** Octets, hidden ones included. */
  size: number;
  /** Ranges that the reader does not see. */
  hidden: readonly HiddenOctets[];
  /** The stored text, and HTML as it came, packed by packText; empty where they are too large to be cut out. */
  text: string;
  html: Uint8Array | null;
  files: readonly Pick<StoredPart, "blob" | "size">[];
}

/** Bytes that it takes at least. */
export const estimateComposedSize = (parts: StoredParts | KeptParts): number =>
  "skeleton" in parts
    ? parts.size
    : parts.files.reduce((sum, { size }) => sum + size, parts.text.length + (parts.html?.byteLength ?? 0));

/** Blobs that are read for it. */
export const blobsOfParts = (parts: StoredParts | KeptParts): string[] => [
  ...parts.files.map(({ blob }) => blob),
  ...("skeleton" in parts && typeof parts.skeleton === "string" ? [parts.skeleton] : []),
];

/** Puts kept octets together. @throws DamagedSkeleton if they are not those that were kept; the error of a blob that cannot be read */
async function restoreOctets(
  { skeleton, digest, size, hidden, ...parts }: KeptParts,
  readBlob: ReadBlob,
): Promise<Buffer> {
  const packed = typeof skeleton === "string" ? await readBlob(skeleton) : skeleton;
  const unpacked = unpackSkeleton(packed, size);
  // A file of another size may be large.
  if (unpacked.cuts.some((cut) => cut.position < TEXT && parts.files[cut.position]?.size !== cut.size))
    throw new DamagedSkeleton("an attachment has another size");
  // The attachment or text that is read in pieces.
  let opened: { position: number; content: Uint8Array } | undefined;
  const bytes = await readOctets(unpacked, async (position, from, to) => {
    if (opened?.position !== position) opened = { position, content: await readCutContent(parts, position, readBlob) };
    return opened.content.subarray(from, to);
  });
  const octets = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!digestOctets(octets).equals(digest)) throw new DamagedSkeleton("they have another digest");
  return withoutHidden(octets, hidden);
}

/** Content that was cut out of octets. @throws DamagedSkeleton if there is none; the error of a blob that cannot be read */
async function readCutContent(
  { text, html, files }: Pick<KeptParts, "text" | "html" | "files">,
  position: number,
  readBlob: ReadBlob,
): Promise<Uint8Array> {
  if (position === TEXT) return toLines(text);
  if (position === HTML) return toLines(html ? unpackText(html, LARGEST_TEXT) : "");
  const file = files[position];
  if (!file) throw new DamagedSkeleton(`there is no attachment ${position}`);
  return await readBlob(file.blob);
}

type ReadBlob = (name: string) => Promise<Uint8Array>;

/** Composes the RFC 5322 file of a message. Lines end in CRLF. `above`: whole lines that go on top. */
export async function composeMessageFile(
  { id, headers, text, html, files }: StoredParts,
  readBlob: ReadBlob,
  above = "",
): Promise<Uint8Array> {
  const attachments = await Promise.all(
    files.map(async ({ contentId, blob, size: _, ...file }) => ({
      ...{ ...file, content: await readBlob(blob) },
      ...(contentId !== null && { contentId }),
    })),
  );
  return composeMessage({ id, headers, text, ...(html && { html: unpackText(html) }), attachments }, above);
}

/** Parts of a message of which octets are composed. */
export interface OctetsParts extends StoredParts {
  /** Fields of this server, whole lines. */
  trace: string;
}

/** Octets, and their SHA-256. */
export interface Composed {
  content: Content;
  digest: Uint8Array;
}

/** Description of octets by a parser. */
export interface Described {
  digest: Uint8Array;
  /** ENVELOPE and BODYSTRUCTURE. */
  envelope: string;
  structure: string;
  root: ImapPart;
}

/**
 * Composes octets elsewhere: for `owner` (an id) into memory that is a file's, or without `bytes`. @throws AppError server_error
 * 503 if it cannot be done now
 */
export type ComposeStored = (
  parts: OctetsParts | KeptParts,
  owner?: string,
) => Promise<Described & { bytes?: Buffer | undefined }>;

/** Makes octets in a parser, for `owner` (an id), into a file's memory. @throws as `composeStored` */
export async function composeInParser(
  { composeStored }: { composeStored: ComposeStored },
  parts: OctetsParts | KeptParts,
  owner: string,
): Promise<Composed> {
  const { bytes, root, digest } = await composeStored(parts, owner);
  if (!bytes) throw new Error("a message was composed without its octets");
  return { content: { bytes, root }, digest };
}

/** Makes octets here. @throws as restoreOctets */
export async function composeOctets(parts: OctetsParts | KeptParts, readBlob: ReadBlob): Promise<Composed> {
  const isKept = "skeleton" in parts;
  const composed = isKept
    ? await restoreOctets(parts, readBlob)
    : await composeMessageFile(parts, readBlob, parts.trace);
  const bytes = Buffer.from(composed.buffer as ArrayBuffer, composed.byteOffset, composed.byteLength);
  const isProved = isKept && parts.hidden.length === 0;
  return { content: openMessageContent(bytes), digest: isProved ? parts.digest : digestOctets(composed) };
}

export const describeOctets = ({ content, digest }: Composed): Described => ({
  digest,
  envelope: formatImapEnvelope(content.bytes.toString("latin1", 0, content.root.bodyStart)),
  structure: formatBodyStructure(content, true),
  root: content.root,
});
