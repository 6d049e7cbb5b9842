/**
 * Prepares messages and reads documents in parsers, processes of their own, so that parsing, composing, sanitising,
 * authenticating, writing attachments and signing never stall the event loop, and what hangs or fills the memory is killed for
 * sure. A message that hangs or kills a parser stays unparsed, and costs other messages only time.
 *
 * The dispatcher (dispatcher.ts) gives jobs (jobs.ts) to parsers (slot.ts, parser.ts) and answers their DNS questions. Large
 * content goes by file, both ways, since this process would spend its time on passing it on.
 */
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import type { SigningKey } from "../authentication/dkim.ts";
import type { Authentication } from "../authentication/dmarc.ts";
import type { SmtpContext } from "../authentication/evidence.ts";
import { decodeChildMessage } from "../base/child-messages.ts";
import type { Log } from "../base/log.ts";
import { documentMemory, memoryLimit, largeMessageMemoryLimit as mostLarge, TIMES_ITS_SIZE } from "../base/memory.ts";
import type { Runtime } from "../base/runtime.ts";
import type { AnswerOrder, ReadInvitation } from "../documents/invitation.ts";
import type { ReadDocument } from "../documents/kind.ts";
import type { KeepComposed } from "../mailbox/filing/keep-composed.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import { blobsOfParts, type ComposeStored, estimateComposedSize } from "../mailbox/reading/composers.ts";
import { type Composition, isComposition } from "../message/composition.ts";
import { type Read, type ReadHtml, type Reading, sizeOfReading } from "../message/reading.ts";
import type { Carriage } from "../message/recode.ts";
import type { DnsCache } from "../net/dns-cache.ts";
import { canonicalIpAddress, ipAddressNetwork } from "../net/ip.ts";
import type { Source } from "../smtp/spool.ts";
import type { Blobs } from "../store/blobs.ts";
import type { Lender } from "../store/remote-blobs.ts";
import { asUnavailable } from "../store/store.ts";
import { checkParserResult, checkStagedBlobs } from "./checked-answers.ts";
import { createDispatcher, type Work } from "./dispatcher.ts";
import {
  type DocumentJob,
  type KeepingJob,
  LARGEST_MESSAGE,
  type MessageJob,
  type OctetsJob,
  type Prepared,
  type PreparedInbound,
  type PreparedOutbound,
  type RecodingJob,
  type Signing,
  type SigningOrder,
  type TopText,
  UnparseableError,
} from "./jobs.ts";
import { type StartParser, startParser } from "./parser-process.ts";

export interface ParserPool {
  /**
   * Prepares a message for filing. `size`: bytes of a message in a file. `top`: lines above its octets.
   * @throws UnparseableError if it cannot be parsed; AppError server_error 503 if the store is full, too much waits, or
   * the pool stopped
   */
  prepare(
    work: Work,
    source: Source | Composition,
    more?: { size?: number | undefined; top?: TopText | undefined },
  ): Promise<PreparedMessage>;
  /**
   * Prepares a message that was kept elsewhere, as bulk work, and looks for neither reports nor junk tokens. @throws as prepare
   */
  prepareTransferred(source: Source): Promise<PreparedMessage>;
  /**
   * Prepares an arriving message, charged to the network of its peer. The message is authenticated, with the result in its
   * topmost header field. `isStranger`: see Work. `isJudged`: a junk filter wants its tokens. `released`: resolves when the result is no longer in memory. The caller drops
   * what is staged.
   * @throws as prepare
   */
  prepareInbound(
    source: Source,
    size: number,
    smtpContext: SmtpContext,
    more?: { isStranger?: boolean; isJudged?: boolean; released?: Promise<void> },
  ): Promise<PreparedInbound>;
  /**
   * Authenticates a message that cannot be parsed. `shownFrom`: the author that readers will see; "" for none. `headerOnly`: by
   * envelope and header alone, as if no signature held. @throws as prepare
   */
  authenticate(
    source: Source,
    size: number,
    smtpContext: SmtpContext,
    shownFrom: string,
    headerOnly?: true,
  ): Promise<Authentication>;
  /**
   * Prepares a message that is sent, as interactive work, and also returns the bytes to transmit. `account`: the source.
   * `top`: lines above its octets.
   * @throws as prepare; the errors of dkim.ts for a bad key
   */
  prepareOutbound(
    account: string,
    source: Uint8Array | Composition,
    signing: Signing,
    top?: TopText,
  ): Promise<PreparedOutbound>;
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
  /** Composes a stored message, whose octets are kept from now on. @throws as prepare */
  keepComposed: KeepComposed;
  /** Extracts the text of a document, one document at a time. */
  readDocument: ReadDocument;
  /** Reads the invitation in a calendar file, and answers it; undefined if it has none, or cannot be read. @throws as prepare */
  readInvitation(
    owner: string,
    source: Source,
    size: number,
    answer?: AnswerOrder,
  ): Promise<ReadInvitation | undefined>;
  /** Ends the parsers; every task rejects as unavailable. */
  stop(): void;
}

/** Enough to continue while the main thread commits and hands out nothing. */
const MOST_IN_HAND = 8;
/** Memory for each shared parser of arriving mail, which has itself a few tens of MB and one isolated parser beside it. */
const MEMORY_PER_WORKER = 512 * 1024 * 1024;
const MOST_WORKERS = 4;
/** Bytes. */
const SMALL_MACHINE = 2 * 1024 * 1024 * 1024;
/** Bytes of a result in a file, beside those that the size of the message explains. */
const LARGEST_REPLY = 32 * 1024 * 1024;
const BULK: Work = { kind: "bulk", source: "kept elsewhere" };
/** Work on octets: what somebody waits for, or else bulk work. */
const forOwner = (owner: string | undefined): Work =>
  owner === undefined ? { kind: "bulk", source: "octets" } : { kind: "interactive", source: owner };

export function createParserPool({
  blobFolder,
  stageFolder = join(dirname(blobFolder), "spool"),
  remote,
  workers = workersFor(memoryLimit(), availableParallelism()),
  mostInHand = MOST_IN_HAND,
  mostLargeBytes = mostLarge(),
  mostIsolated = mostIsolatedFor(memoryLimit()),
  findOwnerWorkspaceId = () => undefined,
  start = startParser,
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
  /** Most shared parsers of arriving mail. */
  workers?: number;
  /** Most tasks that a parser has in hand at once. */
  mostInHand?: number;
  /** See createDispatcher. */
  mostLargeBytes?: number;
  /** See createDispatcher. */
  mostIsolated?: number;
  /** The workspace of a person or mailbox, by its id. */
  findOwnerWorkspaceId?: (owner: string) => string | undefined;
  start?: StartParser;
}): ParserPool {
  const dispatcher = createDispatcher({
    ...parts,
    workers,
    mostInHand,
    mostLargeBytes,
    mostIsolated,
    start,
  });

  let stages = 0;
  // A command beside the server has the same folder.
  const nextStage = (): string => join(stageFolder, `${process.pid}-${++stages}.staged`);

  /** Time spent on documents does not count against the person's mail. */
  function owned(work: Work): Work {
    if (work.kind !== "interactive" && work.kind !== "document") return work;
    const workspace = findOwnerWorkspaceId(work.source);
    if (work.kind === "interactive") return { ...work, workspace };
    return { ...work, source: `documents of ${work.source}`, workspace: workspace && `documents of ${workspace}` };
  }

  async function add(
    work: Work,
    job: MessageJob | OctetsJob | KeepingJob | RecodingJob | { reading: Reading } | DocumentJob,
    size: number,
    more?: { released?: Promise<void> | undefined; memory?: number; keys?: readonly SigningKey[] },
  ): Promise<Prepared> {
    const stage = nextStage();
    const files = { source: `${stage}.source`, reply: `${stage}.reply` };
    const isLent = isTooLarge(job);
    let result: Prepared | undefined;
    try {
      const given = isLent ? await inFile(job, files.source) : job;
      result = await dispatcher.add(owned(work), { ...given, blobFolder, reply: files.reply }, size, more);
      return result ?? (await readReply(files.reply, size));
    } catch (error) {
      throw asUnavailable(error);
    } finally {
      if (isLent) await rm(files.source, { force: true });
      if (result === undefined) await rm(files.reply, { force: true });
    }
  }

  /** Adds a job that files a message. */
  async function addFiling(
    work: Work,
    job: MessageJob,
    {
      size = estimateSourceSize(job.source),
      keys = [],
    }: { size?: number | undefined; keys?: readonly SigningKey[] } = {},
  ): Promise<Prepared> {
    const files = isComposition(job.source) ? job.source.files : [];
    return addWriting(
      work,
      job,
      files?.map(({ blob }) => blob),
      { size, keys },
    );
  }

  /** Adds a job that writes blobs, and reads those of the list. Blobs that are elsewhere are lent to the parser, and adopted from it. */
  async function addWriting(
    work: Work,
    job: MessageJob | KeepingJob,
    blobs: readonly string[] | undefined,
    { size, keys = [] }: { size: number; keys?: readonly SigningKey[] },
  ): Promise<Prepared> {
    if (!remote) return add(work, job, size, { keys });
    const stage = nextStage();
    try {
      await lend(remote, blobs, stage);
      const prepared = await add(work, { ...job, stage, stageOnly: true }, size, { keys });
      await adoptAll(checkStagedBlobs(prepared, stage), remote);
      return prepared;
    } finally {
      await rm(stage, { recursive: true, force: true });
    }
  }

  async function composeStored(parts: OctetsJob["octets"], owner?: string) {
    const work = forOwner(owner);
    const stage = nextStage();
    const file = `${stage}.octets`;
    try {
      if (remote) await lend(remote, blobsOfParts(parts), stage);
      const job: OctetsJob = { octets: parts, ...(remote && { stage }), ...(owner !== undefined && { file }) };
      const { octets } = given(await add(work, job, estimateComposedSize(parts)), "octets");
      // The mapping stays when the file is gone.
      const bytes = owner === undefined ? undefined : Bun.mmap(file);
      return { ...octets, bytes: bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
    } finally {
      await Promise.all([stage, file].map((path) => rm(path, { recursive: true, force: true })));
    }
  }

  return {
    prepare: async (work, source, { size, top } = {}) =>
      given(await addFiling(work, { source, ...(top && { top }) }, { size }), "message").message,
    read: async <R extends Reading>(source: string, reading: R) =>
      given(await add({ kind: "interactive", source }, { reading }, sizeOfReading(reading)), "read").read as Read<R>,
    composeStored,
    keepComposed: async (parts, owner) =>
      given(
        await addWriting(forOwner(owner), { composed: parts }, blobsOfParts(parts), {
          size: estimateComposedSize(parts),
        }),
        "kept",
      ).kept,
    prepareTransferred: async (source) =>
      given(await addFiling(BULK, { source, isTransferred: true }), "message").message,
    async prepareInbound(source, size, smtpContext, { isStranger = false, isJudged = true, released } = {}) {
      const stage = nextStage();
      const remove = () => rm(stage, { recursive: true, force: true });
      try {
        const job: MessageJob = { source, smtpContext, stage, isJudged, ...(remote && { stageOnly: true }) };
        const prepared = await add({ ...arrivingFrom(smtpContext), isStranger }, job, size, { released });
        const staged = checkStagedBlobs(prepared, stage);
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
    async authenticate(source, size, smtpContext, shownFrom, headerOnly) {
      const job: MessageJob = { source, smtpContext, shownFrom, ...(headerOnly && { headerOnly }) };
      return given(await add(arrivingFrom(smtpContext), job, size), "authentication").authentication;
    },
    async prepareOutbound(account, source, signing, top) {
      const work: Work = { kind: "interactive", source: account };
      const job: MessageJob = { source, signing: toSigningOrder(signing), ...(top && { top }) };
      const prepared = await addFiling(work, job, signing);
      const { message, content } = given(prepared, "message", "content");
      return { message, content };
    },
    async recodeOutbound(account, content, takes, signing) {
      const job = { source: content, recoding: { takes, signing: toSigningOrder(signing) } };
      const { keys } = signing;
      const { content: recoded } = await add({ kind: "interactive", source: account }, job, content.byteLength, {
        keys,
      });
      return recoded && "bytes" in recoded ? recoded.bytes : undefined;
    },
    async readInvitation(owner, source, size, answer) {
      const job = { invitation: { source, answer } };
      try {
        return (
          given(await add({ kind: "document", source: owner }, job, size, { memory: documentMemory() }), "invitation")
            .invitation ?? undefined
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
          given(await add({ kind: "document", source: owner }, job, size, { memory: documentMemory() }), "document")
            .document ?? undefined
        );
      } catch (error) {
        if (error instanceof UnparseableError) return { failure: error.message.replace(/^T/, "t") };
        throw error;
      }
    },
    stop: dispatcher.stop,
  };
}

/** Most isolated parsers: one for each group, where each may take what it may take; on a small machine they take turns. */
const mostIsolatedFor = (memory: number): number => (memory < SMALL_MACHINE ? 1 : 3);

/** Leaves a processor to the main thread. `memory`: bytes. */
const workersFor = (memory: number, processors: number): number =>
  Math.max(1, Math.min(MOST_WORKERS, processors - 1, Math.round(memory / MEMORY_PER_WORKER)));

const toSigningOrder = ({ keys, signedAt }: Signing): SigningOrder => ({
  signers: keys.map(({ privateKey: _, ...signer }) => signer),
  signedAt,
});

/** True for a job whose source is bytes, too many for a message. */
const isTooLarge = (job: object): job is { source: Uint8Array } =>
  "source" in job && job.source instanceof Uint8Array && job.source.byteLength > LARGEST_MESSAGE;

/** Reads the result of a job of that size. @throws UnparseableError for more than it may be, or what is none */
async function readReply(path: string, size: number): Promise<Prepared> {
  if ((await stat(path)).size > LARGEST_REPLY + size * TIMES_ITS_SIZE)
    throw new UnparseableError("The message became too large");
  const reply = await readFile(path);
  try {
    return checkParserResult((decodeChildMessage(reply) as { result: unknown }).result);
  } catch (error) {
    throw new UnparseableError("The message confused the parser", { cause: error });
  }
}

/** Puts the source of a job into a file. */
async function inFile<J extends { source: Uint8Array }>(job: J, path: string): Promise<J & { source: string }> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(path, job.source, { mode: 0o600 });
  return { ...job, source: path };
}

/** Puts blobs that are elsewhere into the folder, under their names. */
async function lend(remote: Lender, blobs: readonly string[] = [], stage: string): Promise<void> {
  await mkdir(stage, { recursive: true, mode: 0o700 });
  await Promise.all([...new Set(blobs)].map((blob) => remote.lend(blob, join(stage, blob))));
}

async function adoptAll(staged: Required<Prepared>["staged"], blobs: Pick<Blobs, "adopt">): Promise<void> {
  const ends = await Promise.allSettled(staged.map(({ name, file }) => blobs.adopt(file, name)));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

const arrivingFrom = ({ ip }: SmtpContext): Work => ({
  kind: "arriving",
  source: ipAddressNetwork(canonicalIpAddress(ip)),
});

/** The result of a job, which must have the given parts. */
function given<K extends keyof Prepared>(prepared: Prepared, ...parts: K[]): Required<Pick<Prepared, K>> {
  const missing = parts.find((part) => prepared[part] === undefined);
  if (missing !== undefined) throw new Error(`the parser prepared a message without its ${missing}`);
  return prepared as Required<Pick<Prepared, K>>;
}

/** Size in bytes; an estimate for a message that is not composed yet. */
function estimateSourceSize(source: Source | Composition): number {
  if (!isComposition(source)) return source.length;
  const { text = "", html = "", quoted, forwarded, files = [] } = source;
  const attached = files.reduce((sum, { size }) => sum + size, 0);
  const shown = [quoted, forwarded].reduce(
    (sum, part) => sum + (part ? part.text.length + (part.html?.length ?? 0) : 0),
    0,
  );
  return attached + text.length + html.length + shown;
}
