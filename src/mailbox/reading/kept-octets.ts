/** Reads the octets of messages that were kept as they came or left (rules: Octets). */
import { DamagedSkeleton, LARGEST_TEXT, type Skeleton, unpackSkeleton } from "../../message/skeleton.ts";
import { readMessageHeader } from "../../message/structure.ts";
import type { Reader } from "../../store/core.ts";
import type { HiddenOctets } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { hideFrom, type KeptOctets, withoutHidden } from "../filing/keep-octets.ts";
import { composeOctets, type KeptParts } from "./composers.ts";

const SEQS = "(SELECT value FROM json_each(?))";
const rows = statement<Row & { hidden: string | null }, [seqs: string, told: 0 | 1]>(
  `SELECT seq, id, message_octets.size, digest, served_digest AS servedDigest, hidden, iif(?2, envelope, NULL) AS envelope,
     iif(?2, structure, NULL) AS structure, sent_by AS sentBy
   FROM message_octets CROSS JOIN messages ON seq = message_seq WHERE message_seq IN (SELECT value FROM json_each(?1))`,
);
const packedRows = statement<{ seq: number; skeleton: Uint8Array | null; blob: string | null }, [seqs: string]>(
  `SELECT message_seq AS seq, skeleton, blob FROM message_octets WHERE message_seq IN ${SEQS}`,
);
const textRows = statement<{ seq: number; text: string; html: Uint8Array | null }, [seqs: string]>(
  // Packed, HTML may be longer than it is.
  `SELECT message_seq AS seq, iif(octet_length(text) <= ${LARGEST_TEXT}, text, '') AS text,
     iif(octet_length(html_source) <= ${2 * LARGEST_TEXT}, html_source, NULL) AS html
   FROM message_bodies WHERE message_seq IN ${SEQS}`,
);
const fileRows = statement<{ seq: number; blob: string; size: number }, [seqs: string]>(
  `SELECT message_seq AS seq, blob, size FROM attachments WHERE message_seq IN ${SEQS} ORDER BY message_seq, position`,
);

/** Properties of the octets of a message as a person sees them, known without reading them. */
export interface KeptDescription {
  /** messages.seq and messages.id */
  seq: number;
  id: string;
  /** Number of all octets. */
  size: number;
  /** SHA-256 of all octets. */
  digest: Uint8Array;
  /** Number of those that the person sees, and their SHA-256; null where the octets tell it. */
  visibleSize: number;
  visibleDigest: Uint8Array | null;
  /** Ranges that the person does not see. */
  hidden: readonly HiddenOctets[];
  /** ENVELOPE and BODYSTRUCTURE; null where the octets tell them. */
  envelope: string | null;
  structure: string | null;
  /** The packed skeleton, or its blob, of octets that are in no row. */
  skeleton?: Uint8Array | string;
}

/**
 * Describes those of these messages (messages.seq) whose octets were kept. The author alone sees a Bcc (rules: Bcc). With `sizes`,
 * envelopes and structures, which may be long, are left out.
 */
export function describeKeptOctets(
  db: Db,
  seqs: readonly number[],
  userId: string,
  what: "all" | "sizes" = "all",
): Map<number, KeptDescription> {
  const found = rows(db).all(JSON.stringify(seqs), what === "all" ? 1 : 0);
  return new Map(found.map((row) => [row.seq, describeRow(row, parseHidden(row), row.sentBy === userId)]));
}

/** Describes octets of a message that were made and could not be written. */
export function describeUnwrittenOctets(
  { seq, id, sentBy }: Pick<Row, "seq" | "id" | "sentBy">,
  { size, digest, servedDigest, hidden, envelope, structure, skeleton }: KeptOctets,
  userId: string,
): KeptDescription {
  const row = { ...{ seq, id, sentBy, size, digest }, servedDigest: servedDigest ?? null };
  const told = { envelope: envelope ?? null, structure: structure ?? null };
  return {
    ...describeRow({ ...row, ...told }, hidden, sentBy === userId),
    skeleton: skeleton instanceof Uint8Array ? skeleton : skeleton.blob,
  };
}

interface Row extends Pick<KeptDescription, "seq" | "id" | "size" | "digest" | "envelope" | "structure"> {
  servedDigest: Uint8Array | null;
  sentBy: string | null;
}

const parseHidden = ({ hidden }: { hidden: string | null }): HiddenOctets[] => JSON.parse(hidden ?? "[]");

/** `all`: ranges that are hidden from somebody. */
function describeRow(
  { seq, id, size, digest, servedDigest, envelope, structure }: Row,
  all: readonly HiddenOctets[],
  isAuthor: boolean,
): KeptDescription {
  const hidden = hideFrom(all, isAuthor);
  const visibleSize = hidden.reduce((size, [start, end]) => size - (end - start), size);
  // The envelope that is kept has no Bcc.
  const seesBcc = isAuthor && all.some(([, , why]) => why === "bcc");
  const isAllHidden = hidden.length === all.length;
  const visibleDigest = hidden.length === 0 ? digest : isAllHidden ? servedDigest : null;
  return { seq, id, size, digest, visibleSize, visibleDigest, hidden, envelope: seesBcc ? null : envelope, structure };
}

/** The octets of a message as its author, or anybody else, sees them; undefined if none were kept. @throws as restoreOctets */
export async function readKeptOctets(
  { db, blobs }: Reader,
  seq: number,
  isAuthor: boolean,
): Promise<Uint8Array | undefined> {
  const row = rows(db).get(JSON.stringify([seq]), 0);
  if (!row) return undefined;
  const kept = describeRow(row, parseHidden(row), isAuthor);
  return (await composeOctets(readKeptParts(db, kept), blobs.read)).content.bytes;
}

/** Reads what it takes to put octets together, by messages.seq; leaves out those that are gone. */
export function listKeptParts(db: Db, kept: readonly KeptDescription[]): Map<number, KeptParts> {
  const seqs = JSON.stringify(kept.map(({ seq }) => seq));
  const packed = new Map(
    packedRows(db)
      .all(seqs)
      .map(({ seq, skeleton, blob }) => [seq, skeleton ?? blob]),
  );
  const files = Map.groupBy(fileRows(db).all(seqs), ({ seq }) => seq);
  const texts = new Map(
    textRows(db)
      .all(seqs)
      .map((row) => [row.seq, row]),
  );
  const parts = new Map<number, KeptParts>();
  for (const { seq, digest, size, hidden, skeleton = packed.get(seq) } of kept) {
    const stored = texts.get(seq);
    if (!skeleton || !stored) continue;
    const { text, html } = stored;
    parts.set(seq, { skeleton, digest, size, hidden, text, html, files: files.get(seq) ?? [] });
  }
  return parts;
}

/** Reads what it takes to put kept octets together. @throws DamagedSkeleton if the row is gone */
export function readKeptParts(db: Db, kept: KeptDescription): KeptParts {
  const parts = listKeptParts(db, [kept]).get(kept.seq);
  if (!parts) throw new DamagedSkeleton("there is none");
  return parts;
}

/** Bytes of a skeleton that is unpacked for its header on the main thread, which takes half a millisecond. */
const LARGEST_FOR_HEADER = 256 * 1024;

/**
 * Lists the headers that kept octets in rows begin with, without what is hidden, by messages.seq; leaves out those that the
 * row does not tell, and those that are damaged or large.
 */
export function listKeptHeaders(db: Db, kept: readonly KeptDescription[]): Map<number, Buffer> {
  const described = new Map(kept.map((one) => [one.seq, one]));
  const headers = new Map<number, Buffer>();
  for (const { seq, skeleton } of packedRows(db).all(JSON.stringify([...described.keys()]))) {
    const header = skeleton && headerIn(skeleton, described.get(seq) as KeptDescription);
    if (header) headers.set(seq, header);
  }
  return headers;
}

function headerIn(packed: Uint8Array, { size, hidden }: KeptDescription): Buffer | undefined {
  let skeleton: Skeleton;
  try {
    skeleton = unpackSkeleton(packed, size, LARGEST_FOR_HEADER);
  } catch (error) {
    if (error instanceof DamagedSkeleton) return undefined;
    throw error;
  }
  const { bytes, cuts } = skeleton;
  const beginning = Buffer.from(bytes.buffer, bytes.byteOffset, cuts[0]?.at ?? bytes.byteLength);
  const visible = withoutHidden(beginning, hidden);
  const { bodyStart } = readMessageHeader(visible);
  // All of a message may be an attachment of it, which has the original; its text often follows the header.
  const isCut = cuts[0] && bodyStart >= visible.length && !/\n\r?\n$/.test(visible.toString("latin1", bodyStart - 3));
  return isCut ? undefined : visible.subarray(0, bodyStart);
}
