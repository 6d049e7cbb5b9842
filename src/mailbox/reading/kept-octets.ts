/** Reads the octets of messages that were kept as they came or left (rules: Octets). */
import { eq, sql } from "drizzle-orm";
import { DamagedSkeleton, type Skeleton, unpackSkeleton } from "../../message/skeleton.ts";
import { readMessageHeader } from "../../message/structure.ts";
import type { Reader } from "../../store/core.ts";
import { type HiddenOctets, messageOctets, messages } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { hideFrom, type KeptOctets, withoutHidden } from "../filing/keep-octets.ts";
import { composeOctets, type KeptParts } from "./composers.ts";
import { listMessageAttachments } from "./messages.ts";

const statements = prepared((db) => ({
  of: db
    .select({
      seq: messageOctets.messageSeq,
      id: messages.id,
      size: messageOctets.size,
      digest: messageOctets.digest,
      servedDigest: messageOctets.servedDigest,
      hidden: messageOctets.hidden,
      envelope: messageOctets.envelope,
      structure: messageOctets.structure,
      sentBy: messages.sentBy,
    })
    .from(messageOctets)
    .innerJoin(messages, eq(messages.seq, messageOctets.messageSeq))
    .where(sql`${messageOctets.messageSeq} in (select value from json_each(${sql.placeholder("seqs")}))`)
    .prepare(),
  skeleton: db
    .select({ skeleton: messageOctets.skeleton, blob: messageOctets.blob })
    .from(messageOctets)
    .where(eq(messageOctets.messageSeq, sql.placeholder("seq")))
    .prepare(),
}));

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

/** Describes those of these messages (messages.seq) whose octets were kept. The author alone sees a Bcc (rules: Bcc). */
export function describeKeptOctets(db: Db, seqs: readonly number[], userId: string): Map<number, KeptDescription> {
  const rows = statements(db).of.all({ seqs: JSON.stringify(seqs) });
  return new Map(rows.map((row) => [row.seq, describeRow(row, row.sentBy === userId)]));
}

/** Describes octets of a message that were made and could not be written. */
export function describeUnwrittenOctets(
  { seq, id, sentBy }: Pick<Row, "seq" | "id" | "sentBy">,
  { size, digest, servedDigest, hidden, envelope, structure, skeleton }: KeptOctets,
  userId: string,
): KeptDescription {
  const digests = { digest: Buffer.from(digest), servedDigest: servedDigest ? Buffer.from(servedDigest) : null };
  const told = { envelope: envelope ?? null, structure: structure ?? null };
  return {
    ...describeRow({ ...{ seq, id, sentBy, size, hidden }, ...digests, ...told }, sentBy === userId),
    skeleton: skeleton instanceof Uint8Array ? skeleton : skeleton.blob,
  };
}

type Row = ReturnType<ReturnType<typeof statements>["of"]["all"]>[number];

function describeRow(
  { sentBy: _, hidden: all, envelope, servedDigest, ...row }: Row,
  isAuthor: boolean,
): KeptDescription {
  const hidden = hideFrom(all ?? [], isAuthor);
  const isAllHidden = hidden.length === all?.length;
  const visibleSize = hidden.reduce((size, [start, end]) => size - (end - start), row.size);
  // The envelope that is kept has no Bcc.
  const seesBcc = isAuthor && all?.some(([, , why]) => why === "bcc") === true;
  const visibleDigest = hidden.length === 0 ? row.digest : isAllHidden ? servedDigest : null;
  return { ...row, hidden, visibleSize, visibleDigest, envelope: seesBcc ? null : envelope };
}

/** The octets of a message as its author, or anybody else, sees them; undefined if none were kept. @throws as restoreOctets */
export async function readKeptOctets(
  { db, blobs }: Reader,
  seq: number,
  isAuthor: boolean,
): Promise<Uint8Array | undefined> {
  const row = statements(db).of.get({ seqs: JSON.stringify([seq]) });
  if (!row) return undefined;
  const kept = describeRow(row, isAuthor);
  return (await composeOctets(readKeptParts(db, kept), blobs.read)).content.bytes;
}

/** Reads what it takes to put kept octets together. @throws DamagedSkeleton if the row is gone */
export function readKeptParts(db: Db, { seq, size, digest, hidden, skeleton }: KeptDescription): KeptParts {
  const row = skeleton === undefined ? statements(db).skeleton.get({ seq }) : undefined;
  const packed = skeleton ?? row?.skeleton ?? row?.blob;
  if (!packed) throw new DamagedSkeleton("there is none");
  const files = listMessageAttachments(db, seq).map(({ blob, size }) => ({ blob, size }));
  return { skeleton: packed, digest, size, hidden, files };
}

/** Bytes of a skeleton that is unpacked for its header on the main thread, which takes half a millisecond. */
const LARGEST_FOR_HEADER = 256 * 1024;

/**
 * The header that kept octets in a row begin with, without what is hidden; undefined where the row does not tell, and if it is
 * damaged or large.
 */
export function readKeptHeader(db: Db, { seq, size, hidden }: KeptDescription): Buffer | undefined {
  const packed = statements(db).skeleton.get({ seq })?.skeleton;
  if (!packed) return undefined;
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
  // All of a message may be an attachment of it, which has the original.
  return cuts[0] && bodyStart >= visible.length ? undefined : visible.subarray(0, bodyStart);
}
