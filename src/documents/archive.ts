/**
 * The XML parts of an Office file (Open Packaging Conventions): a ZIP archive whose parts relate to each other.
 *
 * Invariants: no part is in memory whole. Its declared size counts before it is unpacked, and yauzl ends one that has a
 * byte more. Archives inside are never opened, and no DTD is read.
 */
import { type Entry, fromBufferPromise, type ZipFile } from "../base/zip.ts";
import { createXmlParser, type XmlReader } from "../message/markup.ts";
import { Enough, type Text, Unreadable } from "./extracted-text.ts";

/** Most parts of an archive; a slide takes some five. */
const MOST_ENTRIES = 10_000;
/** Most bytes that all parts that are read have unpacked. A sheet of 100,000 rows and five columns has some 30 MB. */
const MOST_BYTES = 96 * 1024 * 1024;
/** A part larger than SMALL_BYTES may unpack to so many times its size; deflate reaches 1,032. */
const MOST_RATIO = 250;
const SMALL_BYTES = 1024 * 1024;
/** Elements inside each other. A table in a table in Word takes some ten. */
const MOST_DEPTH = 500;

const BROKEN = "its archive is broken";
const TOO_MUCH = "its archive unpacks to too much";

/** A relationship of a part: its kind (the last segment of its type), and the part or URL that it leads to. */
export interface Relation {
  kind: string;
  target: string;
  external: boolean;
}

export type Archive = Awaited<ReturnType<typeof openArchive>>;

/** @throws Unreadable */
export async function openArchive(bytes: Uint8Array, text: Pick<Text, "look">) {
  const zip = await broken(() => fromBufferPromise(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
  const entries = await broken(() => listEntries(zip));
  const packed = entries.values().reduce((sum, { compressedSize }) => sum + compressedSize, 0);
  if (packed > bytes.byteLength) throw new Unreadable("parts of its archive overlap");
  let unpacked = 0;

  /** Unpacks a part; nothing for one that the archive lacks. @throws Unreadable; Enough */
  async function* unpackPart(name: string): AsyncGenerator<string> {
    const entry = entries.get(name.toLowerCase());
    if (!entry) return;
    const { uncompressedSize: size, compressedSize } = entry;
    if (entry.isEncrypted()) throw new Unreadable("it is encrypted");
    if (size > SMALL_BYTES && size > compressedSize * MOST_RATIO) throw new Unreadable(TOO_MUCH);
    if (unpacked + size > MOST_BYTES) throw new Unreadable(TOO_MUCH);
    const stream = await broken(() => zip.openReadStreamPromise(entry));
    try {
      let decoder: TextDecoder | undefined;
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        text.look();
        unpacked += chunk.byteLength;
        decoder ??= new TextDecoder(detectCharset(chunk));
        yield decoder.decode(chunk, { stream: true });
      }
    } catch (error) {
      throw error instanceof Enough ? error : new Unreadable(BROKEN, { cause: error });
    } finally {
      stream.destroy();
    }
  }

  /** Gives a part to `reader`. @throws Unreadable; Enough; OverBudget; what the reader throws */
  async function read(name: string, reader: XmlReader): Promise<void> {
    const parser = createXmlParser(reader, MOST_DEPTH);
    for await (const piece of unpackPart(name)) parser.write(piece);
    parser.end();
  }

  /** The name of the root element of a part. */
  async function findRootElement(name: string): Promise<string | undefined> {
    let root: string | undefined;
    const parser = createXmlParser({ open: (element) => (root ??= element) }, MOST_DEPTH);
    for await (const piece of unpackPart(name)) {
      parser.write(piece);
      if (root !== undefined) break;
    }
    return root;
  }

  /** The relationships of a part by id; of the whole archive for "". */
  async function readPartRelations(part: string): Promise<Map<string, Relation>> {
    const at = part.lastIndexOf("/") + 1;
    const folder = part.slice(0, at);
    const relations = new Map<string, Relation>();
    await read(`${folder}_rels/${part.slice(at)}.rels`, {
      open(name, { Id, Type = "", Target, TargetMode }) {
        if (name !== "Relationship" || Id === undefined || Target === undefined) return;
        const external = TargetMode === "External";
        const target = external ? Target : resolve(folder, Target);
        relations.set(Id, { kind: Type.slice(Type.lastIndexOf("/") + 1), target, external });
      },
    });
    return relations;
  }

  return { read, findRootElement, readPartRelations };
}

/** Does what fails only with archives that are broken. */
async function broken<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof Unreadable ? error : new Unreadable(BROKEN, { cause: error });
  }
}

/** Names of parts do not differ by case alone (ECMA-376-2 §6.2.2.3). */
async function listEntries(zip: ZipFile): Promise<Map<string, Entry>> {
  if (zip.entryCount > MOST_ENTRIES) throw new Unreadable("its archive has too many parts");
  const entries = new Map<string, Entry>();
  for await (const entry of zip.eachEntry()) {
    const name = entry.fileName.toLowerCase();
    if (entries.has(name)) throw new Unreadable("two parts of its archive have the same name");
    entries.set(name, entry);
  }
  return entries;
}

function detectCharset([first, second]: Uint8Array): "utf-8" | "utf-16le" | "utf-16be" {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}

/** The name of the part that `target` leads to from `folder`. */
function resolve(folder: string, target: string): string {
  const path: string[] = [];
  for (const step of (target.startsWith("/") ? target : folder + target).split("/")) {
    if (step === "..") path.pop();
    else if (step !== "" && step !== ".") path.push(step);
  }
  return path.join("/");
}
