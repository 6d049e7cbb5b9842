/** Sources of an import: the folders that were named, or the content of an archive. */
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Entry } from "../store/named-files.ts";

/** A file of a tree. */
export interface MailFile {
  readonly size: number;
  /** Epoch ms. */
  readonly modifiedAt: number;
  /** All its bytes. */
  pieces(): AsyncIterable<Uint8Array>;
  /** Reads like OpenFile.read; an archive has no such method. */
  read?(position: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Folders and files that an import reads. */
export interface Tree {
  list(path: string): Promise<Entry[]>;
  open(path: string): Promise<MailFile>;
  /** True if the file is an mbox, perhaps gzipped. */
  isMbox(path: string): Promise<boolean>;
}

export const isGzip = (beginning: Uint8Array): boolean => beginning[0] === 0x1f && beginning[1] === 0x8b;

const CHUNK_BYTES = 128 * 1024;

/** The bytes of a file, gunzipped where it is gzipped. @throws errors of gzip */
export async function* readUnpacked(file: Pick<MailFile, "pieces">): AsyncGenerator<Buffer> {
  const pieces = file.pieces()[Symbol.asyncIterator]();
  let first: Buffer = Buffer.alloc(0);
  let next: IteratorResult<Uint8Array>;
  do {
    next = await pieces.next();
    if (!next.done) first = Buffer.concat([first, next.value]);
  } while (!next.done && first.length < 2);
  async function* all(): AsyncGenerator<Buffer> {
    try {
      yield first;
      for (let piece = await pieces.next(); !piece.done; piece = await pieces.next()) {
        yield Buffer.from(piece.value.buffer, piece.value.byteOffset, piece.value.byteLength);
      }
    } finally {
      await pieces.return?.();
    }
  }
  if (!isGzip(first)) {
    yield* all();
    return;
  }
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  // Its errors reach whoever reads.
  pipeline(Readable.from(all()), gunzip, () => {});
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } finally {
    gunzip.destroy();
  }
}

const BEGINNING_BYTES = 4096;

/** The first bytes of a file, unpacked. @throws errors of the file system and of gzip */
export async function readUnpackedBeginning(file: Pick<MailFile, "pieces">): Promise<Buffer> {
  let beginning: Buffer = Buffer.alloc(0);
  for await (const chunk of readUnpacked(file)) {
    beginning = Buffer.concat([beginning, chunk.subarray(0, BEGINNING_BYTES - beginning.length)]);
    if (beginning.length === BEGINNING_BYTES) break;
  }
  return beginning;
}
