/**
 * Reads the mail in an archive, such as Google Takeout's .zip and .tgz, as a tree. Nothing is unpacked to the disk, so a name in an
 * archive leads nowhere.
 *
 * Bounds: files are counted. Each unpacks to the size that it declares. Parts of a zip do not overlap, so no archive unpacks to more
 * than 1,032 times its size, which is what deflate reaches. Archives in archives are not read.
 */
import { basename } from "node:path";
import { Readable } from "node:stream";
import { createTarDecoder, type ParsedTarEntry } from "modern-tar";
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader } from "../base/zip.ts";
import type { Entry as Listed } from "../store/named-files.ts";
import { isMbox } from "./mbox.ts";
import { type MailFile, readUnpacked, readUnpackedBeginning, type Tree } from "./tree.ts";

/** The list of a zip's files takes 1 kB for each. */
const MOST_FILES = 500_000;

/** A file on a disk: an archive is read in several places. */
export type RandomFile = MailFile & Required<Pick<MailFile, "read">>;

/** The files of an archive by path, below the path of the archive. */
function createListing<F>(root: string) {
  const folders = new Map<string, Map<string, F | undefined>>([[root, new Map()]]);
  let count = 0;

  return {
    /** `name`: as the archive has it. @throws Error for too many, and for a name that leads out of the archive */
    add(name: string, file: F): void {
      if (++count > MOST_FILES) throw new Error(`the archive has more than ${MOST_FILES} files`);
      const names = name.split("/").filter((part) => part !== "" && part !== ".");
      if (names.includes("..")) throw new Error("a name leads out of the archive");
      let at = root;
      for (const [i, part] of names.entries()) {
        const isLast = i + 1 === names.length;
        const folder = folders.get(at);
        if (!folder) return;
        folder.set(part, isLast ? file : undefined);
        at += `/${part}`;
        if (!isLast && !folders.has(at)) folders.set(at, new Map());
      }
    },
    async list(path: string): Promise<Listed[]> {
      const entries = [...(folders.get(path) ?? [])].map(
        ([name, file]): Listed => ({ name, kind: file === undefined ? "folder" : "file" }),
      );
      return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    },
    /** @throws Error if there is none */
    file(path: string): F {
      const at = path.lastIndexOf("/");
      const file = folders.get(path.slice(0, at))?.get(path.slice(at + 1));
      if (file === undefined) throw new Error("the archive has no such file");
      return file;
    },
  };
}

const NOTHING = async (): Promise<void> => {};

/* ZIP (APPNOTE.TXT 6.3.10), with the extensions for large files. */

/** How a zip begins, and one without files. */
const ZIP_BEGINNINGS = ["PK\u0003\u0004", "PK\u0005\u0006"];

export const isZip = (beginning: Uint8Array): boolean =>
  ZIP_BEGINNINGS.includes(Buffer.from(beginning.subarray(0, 4)).toString("latin1"));

const NONE = Buffer.alloc(0);

class FileReader extends RandomAccessReader {
  readonly #file: RandomFile;

  constructor(file: RandomFile) {
    super();
    this.#file = file;
  }

  override _readStreamForRange(start: number, end: number): Readable {
    const { read } = this.#file;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let position = start; position < end; ) {
        const piece = await read(position, Math.min(256 * 1024, end - position));
        if (piece.byteLength === 0) return;
        position += piece.byteLength;
        yield piece;
      }
    }
    return Readable.from(pieces());
  }
}

/** `root`: the path of the archive. @throws Error for an archive that is broken, or cut off before its list of files */
export async function openZip(file: RandomFile, root: string): Promise<Tree> {
  const zip = await fromRandomAccessReaderPromise(new FileReader(file), file.size, { autoClose: false }).catch(
    (error) => {
      throw new Error(`the archive is cut off or damaged: fetch it again (${error.message})`, { cause: error });
    },
  );
  const listing = createListing<{ entry: Entry; modifiedAt: number }>(root);
  let packed = 0;
  for await (const entry of zip.eachEntry()) {
    packed += entry.compressedSize;
    if (packed > file.size) throw new Error("parts of the archive overlap");
    const modifiedAt = entry.getLastModDate().getTime();
    // What is not needed to read a file takes more memory than the rest.
    Object.assign(entry, { fileNameRaw: NONE, extraFieldRaw: NONE, extraFields: [], fileCommentRaw: NONE });
    if (!entry.fileName.endsWith("/")) listing.add(entry.fileName, { entry, modifiedAt });
  }

  async function open(path: string): Promise<MailFile> {
    const { entry, modifiedAt } = listing.file(path);
    if (entry.isEncrypted()) throw new Error("it is encrypted: unpack the archive, and import the folder");
    return {
      size: entry.uncompressedSize,
      modifiedAt,
      async *pieces() {
        const stream = await zip.openReadStreamPromise(entry);
        try {
          yield* stream as AsyncIterable<Buffer>;
        } finally {
          stream.destroy();
        }
      },
      close: NOTHING,
    };
  }

  return { list: listing.list, open, isMbox: async (path) => isMbox(await readUnpackedBeginning(await open(path))) };
}

/* tar (POSIX.1-2024, pax), perhaps gzipped. */

/** True for the first bytes of an archive, unpacked. */
export const isTar = (beginning: Buffer): boolean => beginning.toString("latin1", 257, 262) === "ustar";

/** The file of a Maildir in which Dovecot names its keywords: it is asked for before the mail is read. */
export const KEYWORDS = "dovecot-keywords";
const MOST_KEYWORDS = 10_000;

interface TarFile {
  /** Its place among the entries. */
  number: number;
  size: number;
  modifiedAt: number;
  isMbox: boolean;
  /** Its beginning, for KEYWORDS. */
  content?: Buffer;
}

async function* readTarEntries(file: MailFile): AsyncGenerator<ParsedTarEntry> {
  const bytes = readUnpacked(file);
  const archive = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await bytes.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void (await bytes.return(undefined)),
  });
  yield* archive.pipeThrough(createTarDecoder({ strict: true })) as unknown as AsyncIterable<ParsedTarEntry>;
}

export interface Tar extends Tree {
  /** The place of a file: an archive is read from its beginning to its end, and once more for what lies before. */
  getEntryNumber(path: string): number;
  /** Reason why the archive could not be read to its end; undefined if it could. The tree has what was read until then. */
  fault: string | undefined;
  close(): Promise<void>;
}

/** Reads the archive once, to know its files. `root`: its path. */
export async function openTar(file: MailFile, root: string): Promise<Tar> {
  const listing = createListing<TarFile>(root);
  let fault: string | undefined;
  let number = 0;
  let keywords = 0;
  try {
    for await (const { header, body } of readTarEntries(file)) {
      if (header.type !== "file") continue;
      const known: TarFile = {
        number: number++,
        size: header.size,
        modifiedAt: header.mtime?.getTime() ?? 0,
        isMbox: false,
      };
      listing.add(header.name, known);
      const beginning = await readUnpackedBeginning({ pieces: () => body as unknown as AsyncIterable<Uint8Array> });
      known.isMbox = isMbox(beginning);
      if (basename(header.name) === KEYWORDS && ++keywords <= MOST_KEYWORDS) known.content = beginning;
    }
  } catch (error) {
    fault = `the archive is cut off or damaged: fetch it again (${error instanceof Error ? error.message : error})`;
  }

  let entries = readTarEntries(file);
  let next = 0;

  async function* readEntryPieces(wanted: number): AsyncGenerator<Uint8Array> {
    if (wanted < next) {
      await entries.return(undefined);
      entries = readTarEntries(file);
      next = 0;
    }
    for (let entry = await entries.next(); !entry.done; entry = await entries.next()) {
      if (entry.value.header.type !== "file") continue;
      if (next++ === wanted) {
        yield* entry.value.body as unknown as AsyncIterable<Uint8Array>;
        return;
      }
      await entry.value.body.cancel();
    }
  }

  return {
    list: listing.list,
    isMbox: async (path) => listing.file(path).isMbox,
    async open(path) {
      const { number, size, modifiedAt, content } = listing.file(path);
      const pieces = () => (content ? Readable.from([content]) : readEntryPieces(number));
      return { size, modifiedAt, pieces, close: NOTHING };
    },
    getEntryNumber: (path) => listing.file(path).number,
    fault,
    close: () => entries.return(undefined).then(NOTHING, NOTHING),
  };
}
