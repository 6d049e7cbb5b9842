/**
 * Prepares messages in workers, so that parsing, composing, sanitising, authenticating, writing attachments and signing
 * never stall the event loop. A message that hangs or kills a parser stays unparsed, and costs other messages only
 * time.
 *
 * The dispatcher (dispatcher.ts) gives jobs (jobs.ts) to workers (slot.ts, parser-worker.ts) and answers the workers'
 * DNS questions.
 */
import { mkdir, rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import type { Authentication } from "../authentication/dmarc.ts";
import type { Arrival } from "../authentication/evidence.ts";
import type { Log } from "../base/log.ts";
import { documentMemory, memoryLimit, mostLargeBytes as mostLarge } from "../base/memory.ts";
import type { Runtime } from "../base/runtime.ts";
import type { AnswerOrder, ReadInvitation } from "../documents/invitation.ts";
import type { ReadDocument } from "../documents/kind.ts";
import type { ComposeStored, OctetsParts } from "../mailbox/composers.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { type Composition, isComposition } from "../message/composition.ts";
import { type Read, type ReadHtml, type Reading, sizeOfReading } from "../message/reading.ts";
import type { Carriage } from "../message/recode.ts";
import type { DnsCache } from "../net/dns-cache.ts";
import { canonicalAddress, sourceOfAddress } from "../net/ip.ts";
import type { Source } from "../smtp/spool.ts";
import type { Blobs } from "../store/blobs.ts";
import type { Lender } from "../store/remote-blobs.ts";
import { createDispatcher, type Work } from "./dispatcher.ts";
import {
  type DocumentJob,
  type MessageJob,
  type OctetsJob,
  type Prepared,
  type PreparedInbound,
  type PreparedOutbound,
  type RecodingJob,
  type Signing,
  UnparseableError,
} from "./jobs.ts";
import type { ParserWorker } from "./slot.ts";

export interface ParserPool {
  /**
   * Prepares a message for filing. `size`: bytes of a message in a file.
   * @throws UnparseableError if it cannot be parsed; AppError server_error 503 if the store is full, too much waits, or
   * the pool stopped
   */
  prepare(work: Work, source: Source | Composition, size?: number): Promise<PreparedMessage>;
  /** As `prepare`, as bulk work, for a message that was kept elsewhere; looks for neither reports nor junk tokens. */
  prepareKept(source: Source): Promise<PreparedMessage>;
  /**
   * As `prepare` for an arriving message, charged to its peer. The message is authenticated, with the result in its
   * topmost header field. `released`: resolves when the result is no longer in memory. The caller drops what is staged.
   */
  prepareInbound(source: Source, size: number, arrival: Arrival, released?: Promise<void>): Promise<PreparedInbound>;
  /**
   * Authenticates a message that cannot be parsed. `shownFrom`: the author that readers will see; "" for none.
   * @throws as prepare
   */
  authenticate(source: Source, size: number, arrival: Arrival, shownFrom: string): Promise<Authentication>;
  /**
   * As `prepare`, as interactive work, for a message that is sent; also returns the bytes to transmit. `account`: the
   * source.
   * @throws as prepare; the errors of dkim.ts for a bad key
   */
  prepareOutbound(account: string, source: Uint8Array | Composition, signing: Signing): Promise<PreparedOutbound>;
  /**
   * Makes content that prepareOutbound returned fit a server, and signs it anew, as interactive work; undefined if nothing changes.
   * @throws as prepareOutbound
   */
  recodeOutbound(
    account: string,
    content: Uint8Array,
    takes: Carriage,
    signing: Signing,
  ): Promise<Uint8Array | undefined>;
  /** Reads stored HTML for a caller, as interactive work. @throws as prepare */
  read: ReadHtml;
  /**
   * Composes the octets of a stored message, for `owner` as interactive work into a file that only this process can read, or
   * without one as bulk work. @throws as prepare
   */
  composeStored: ComposeStored;
  /** Extracts the text of a document, one document at a time. */
  readDocument: ReadDocument;
  /** Reads the invitation in a calendar file, and answers it; undefined if it has none, or cannot be read. @throws as prepare */
  readInvitation(
    owner: string,
    source: Source,
    size: number,
    answer?: AnswerOrder,
  ): Promise<ReadInvitation | undefined>;
  /** Ends the workers; every task rejects as unavailable. */
  stop(): void;
}

export type StartWorker = (script: string) => ParserWorker;

/** Enough to continue while the main thread commits and hands out nothing. */
const MOST_IN_HAND = 8;
/** Memory for each shared worker of arriving mail, which has itself a few tens of MB and one isolated worker beside it. */
const MEMORY_PER_WORKER = 512 * 1024 * 1024;
const MOST_WORKERS = 4;
const BULK: Work = { kind: "bulk", source: "kept elsewhere" };
const FREEZING: Work = { kind: "bulk", source: "octets" };

export function createParserPool({
  blobFolder,
  stageFolder = join(dirname(blobFolder), "spool"),
  remote,
  workers = workersFor(memoryLimit(), availableParallelism()),
  mostInHand = MOST_IN_HAND,
  mostLargeBytes = mostLarge(),
  // The same address in the single executable, where the worker's file lies beside the main one (entry naming [name]).
  script = new URL("./parser-worker.ts", import.meta.url).href,
  documentScript = new URL("./document-worker.ts", import.meta.url).href,
  // The types are a browser's, whose Worker lacks the `ref` and `unref` of Bun's.
  startWorker = (script) => new Worker(script) as Worker & ParserWorker,
  ...parts
}: {
  /** Folder of the blobs. */
  blobFolder: string;
  /** Folder on the same file system where attachments of arriving mail wait; it is emptied at each start. */
  stageFolder?: string;
  /** Where blobs are, if not in `blobFolder`. */
  remote?: Lender | undefined;
  names: DnsCache;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Most shared workers of arriving mail. */
  workers?: number;
  /** Most tasks that a worker has in hand at once. */
  mostInHand?: number;
  /** See createDispatcher. */
  mostLargeBytes?: number;
  /** The worker's script. */
  script?: string;
  /** The same of the worker for documents. */
  documentScript?: string;
  /** Starts a worker on it. */
  startWorker?: StartWorker;
}): ParserPool {
  const dispatcher = createDispatcher({
    ...parts,
    workers,
    mostInHand,
    mostLargeBytes,
    startWorker: (group) => startWorker(group === "documents" ? documentScript : script),
  });

  let stages = 0;
  const nextStage = (): string => join(stageFolder, `${++stages}.staged`);

  const add = (
    work: Work,
    job: MessageJob | OctetsJob | RecodingJob | { reading: Reading } | DocumentJob,
    size: number,
    more?: { released?: Promise<void> | undefined; memory?: number },
  ): Promise<Prepared> => dispatcher.add(work, { ...job, blobFolder }, size, more);

  /** As `add`. Blobs that are elsewhere are lent to the worker, and adopted from it. */
  async function addFiling(work: Work, job: MessageJob, size = sizeOf(job.source)): Promise<Prepared> {
    if (!remote) return add(work, job, size);
    const stage = nextStage();
    try {
      if (isComposition(job.source)) await lend(remote, job.source.files, stage);
      const prepared = await add(work, { ...job, stage, apart: true }, size);
      await adoptAll(prepared.staged, remote);
      return prepared;
    } finally {
      await rm(stage, { recursive: true, force: true });
    }
  }

  async function composeStored(parts: OctetsParts, owner?: string) {
    const work: Work = owner === undefined ? FREEZING : { kind: "interactive", source: owner };
    const stage = nextStage();
    const file = `${stage}.octets`;
    try {
      if (remote) await lend(remote, parts.files, stage);
      const job: OctetsJob = { octets: parts, ...(remote && { stage }), ...(owner !== undefined && { file }) };
      const { octets } = given(await add(work, job, sizeOfStored(parts)), "octets");
      // The mapping stays when the file is gone.
      const bytes = owner === undefined ? undefined : Bun.mmap(file);
      return { ...octets, bytes: bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
    } finally {
      await Promise.all([stage, file].map((path) => rm(path, { recursive: true, force: true })));
    }
  }

  return {
    prepare: async (work, source, size) => given(await addFiling(work, { source }, size), "message").message,
    read: async <R extends Reading>(source: string, reading: R) =>
      given(await add({ kind: "interactive", source }, { reading }, sizeOfReading(reading)), "read").read as Read<R>,
    composeStored,
    prepareKept: async (source) => given(await addFiling(BULK, { source, keptElsewhere: true }), "message").message,
    async prepareInbound(source, size, arrival, released) {
      const stage = nextStage();
      const remove = () => rm(stage, { recursive: true, force: true });
      try {
        const job: MessageJob = { source, arrival, stage, ...(remote && { apart: true }) };
        const prepared = await add(arrivingFrom(arrival), job, size, { released });
        const { staged = [] } = prepared;
        return {
          ...given(prepared, "message", "authentication"),
          staged: {
            count: staged.length,
            adopt: (blobs) => adoptAll(staged, blobs),
            drop: staged.length === 0 ? async () => {} : remove,
          },
        };
      } catch (error) {
        await remove();
        throw error;
      }
    },
    authenticate: async (source, size, arrival, shownFrom) =>
      given(await add(arrivingFrom(arrival), { source, arrival, shownFrom }, size), "authentication").authentication,
    async prepareOutbound(account, source, signing) {
      const prepared = await addFiling({ kind: "interactive", source: account }, { source, signing });
      const { message, content } = given(prepared, "message", "content");
      return { message, content };
    },
    async recodeOutbound(source, content, takes, signing) {
      const recoding = { content, takes, signing };
      const { content: recoded } = await add({ kind: "interactive", source }, { recoding }, content.byteLength);
      return recoded && "bytes" in recoded ? recoded.bytes : undefined;
    },
    async readInvitation(owner, source, size, answer) {
      const job = { invitation: { source, answer } };
      try {
        return (
          given(await add(documentsOf(owner), job, size, { memory: documentMemory() }), "invitation").invitation ??
          undefined
        );
      } catch (error) {
        if (error instanceof UnparseableError) return undefined;
        throw error;
      }
    },
    async readDocument(owner, source, size, { filename, contentType }) {
      const job = { document: { source, filename, contentType } };
      try {
        return (
          given(await add(documentsOf(owner), job, size, { memory: documentMemory() }), "document").document ??
          undefined
        );
      } catch (error) {
        if (error instanceof UnparseableError) return { failure: error.message.replace(/^T/, "t") };
        throw error;
      }
    },
    stop: dispatcher.stop,
  };
}

/** Leaves a processor to the main thread. `memory`: bytes. */
const workersFor = (memory: number, processors: number): number =>
  Math.max(1, Math.min(MOST_WORKERS, processors - 1, Math.round(memory / MEMORY_PER_WORKER)));

/** Puts blobs that are elsewhere into the folder, under their names. */
async function lend(remote: Lender, files: readonly { blob: string }[] = [], stage: string): Promise<void> {
  await mkdir(stage, { recursive: true, mode: 0o700 });
  const blobs = new Set(files.map(({ blob }) => blob));
  await Promise.all([...blobs].map((blob) => remote.lend(blob, join(stage, blob))));
}

async function adoptAll(staged: Prepared["staged"] = [], blobs: Pick<Blobs, "adopt">): Promise<void> {
  const ends = await Promise.allSettled(staged.map(({ name, file }) => blobs.adopt(file, name)));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** Time spent on documents does not count against the person's mail. */
const documentsOf = (owner: string): Work => ({ kind: "document", source: `documents of ${owner}` });

const arrivingFrom = ({ ip }: Arrival): Work => ({ kind: "arriving", source: sourceOfAddress(canonicalAddress(ip)) });

/** The result of a job, which must have the given parts. */
function given<K extends keyof Prepared>(prepared: Prepared, ...parts: K[]): Required<Pick<Prepared, K>> {
  const missing = parts.find((part) => prepared[part] === undefined);
  if (missing !== undefined) throw new Error(`the parser prepared a message without its ${missing}`);
  return prepared as Required<Pick<Prepared, K>>;
}

const sizeOfStored = ({ text, html, files }: OctetsParts): number =>
  files.reduce((sum, { size }) => sum + size, text.length + (html?.byteLength ?? 0));

/** Size in bytes; an estimate for a message that is not composed yet. */
function sizeOf(source: Source | Composition): number {
  if (!isComposition(source)) return source.length;
  const { text = "", html = "", quoted, forwarded, files = [] } = source;
  const attached = files.reduce((sum, { size }) => sum + size, 0);
  const shown = [quoted, forwarded].reduce(
    (sum, part) => sum + (part ? part.text.length + (part.html?.length ?? 0) : 0),
    0,
  );
  return attached + text.length + html.length + shown;
}
