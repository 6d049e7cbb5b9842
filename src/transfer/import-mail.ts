/**
 * Import: reads messages from a source, prepares them in the parsers that also prepare arriving mail, and files
 * them in the order of the source.
 *
 *   sources.ts, imap-account.ts ─► placement.ts ─► parser-pool.ts ─► mailbox/filing/transfer.ts, in batches
 *
 * Invariants: a message that the mailbox has is skipped, so a repeated import continues one that broke off. A message
 * is filed whole or not at all. A message that no parser can read is filed with its original attached. At most a window
 * of messages is in memory.
 */
import { join } from "node:path";
import { isUnavailable } from "../base/errors.ts";
import { pause } from "../base/pause.ts";
import { prepareUnreadableMessage } from "../mailbox/filing/prepare.ts";
import { fileTransferred, isMessageAlreadyInMailbox, type TransferredMessage } from "../mailbox/filing/transfer.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { readMailboxUsage } from "../mailbox/state/mailboxes.ts";
import { parseSender } from "../message/address.ts";
import { findHeader, withoutBcc } from "../message/headers.ts";
import { fingerprintMessage, firstMessageId } from "../message/message-id.ts";
import { createDnsCache } from "../net/dns-cache.ts";
import { BLOB_CACHE } from "../store/blob-cache.ts";
import { isDataFolderClaimed } from "../store/claim.ts";
import type { Core } from "../store/core.ts";
import { isStoreBusy } from "../store/store.ts";
import { UnparseableError } from "../workers/jobs.ts";
import { createParserPool, type ParserPool } from "../workers/parser-pool.ts";
import type { StartParser } from "../workers/parser-process.ts";
import { choosePlacement, type Destination, type Placement } from "./placement.ts";
import {
  type FoundMessage,
  type KnownMessage,
  type NotFound,
  type Source,
  type Unwrapped,
  unwrapImportedMessage,
} from "./sources.ts";

/** Bytes. A larger message is reported instead of imported, and its source yields only its beginning. */
export const LARGEST_MESSAGE = 64 * 1024 * 1024;
/** Messages being prepared or waiting to be filed, and their bytes; a larger message goes alone. */
const WINDOW = 320;
const WINDOW_BYTES = 8 * 1024 * 1024;
/**
 * Messages in one transaction, at most. The rest of the window keeps the parsers busy meanwhile. The search index
 * writes a segment a transaction, and few large segments cost less to merge than many small ones.
 */
const FILED_AT_ONCE = 256;

export interface ImportRequest {
  messages: AsyncIterable<FoundMessage | NotFound | KnownMessage>;
  destination: Destination;
  /** True once somebody asked to stop. Messages in the window are still filed. */
  isInterrupted(): boolean;
  /** Called after each batch. */
  onProgress(tally: Tally): void;
}

export interface ImportResult extends Tally {
  /** Why it stopped before the end. */
  stopped?: "interrupted" | "quota" | "unavailable";
  /** The error of the store or file system, for `unavailable`. */
  reason?: string;
}

/** A message of the window. */
interface Pending {
  source: Source;
  place: string;
  bytes: number;
  transferred: Promise<TransferredMessage>;
}

/** Imports mail. Stops if the store cannot write, as with a full disk; messages filed before stay. */
export async function importMail(
  {
    core,
    parser,
    pacing,
  }: {
    core: MailCore;
    parser: Pick<ParserPool, "prepareTransferred">;
    pacing: Pacing;
  },
  { messages, destination, isInterrupted, onProgress }: ImportRequest,
): Promise<ImportResult> {
  const { store, runtime, log } = core;
  const tally = createTally();
  const window: Pending[] = [];
  let bytes = 0;
  let stopped: ImportResult["stopped"];
  let reason: string | undefined;

  function admit(found: FoundMessage): void {
    const { source, place, size } = found;
    if (size > found.content.byteLength) {
      tally.fail(source, { place, reason: `too large: ${size} bytes` });
      return;
    }
    const unwrapped = unwrapImportedMessage(found);
    if (unwrapped.bytes.byteLength === 0) {
      tally.fail(source, { place, reason: "empty" });
      return;
    }
    const placement = choosePlacement(unwrapped, source, destination, runtime.now());
    if (!placement || isThere(unwrapped, placement)) {
      tally.count(source, "skipped");
      return;
    }
    const transferred = prepare(unwrapped, placement);
    // fileBatch awaits it.
    transferred.catch(() => {});
    window.push({ source, place, bytes: unwrapped.bytes.byteLength, transferred });
    bytes += unwrapped.bytes.byteLength;
  }

  const isThere = ({ bytes: content, fields }: Unwrapped, { mailboxId, kind, exported }: Placement): boolean =>
    isMessageAlreadyInMailbox(core.db, {
      mailboxId,
      kind,
      messageId: firstMessageId(findHeader(fields, "message-id") ?? ""),
      fingerprint: () => exported?.fingerprint ?? fingerprintMessage(content),
    });

  async function prepare({ bytes: content, fields }: Unwrapped, placement: Placement): Promise<TransferredMessage> {
    const { exported, ...transferred } = placement;
    const message = await parser.prepareTransferred(content).catch(async (error) => {
      if (!(error instanceof UnparseableError)) throw error;
      log.error("message cannot be parsed", { size: content.byteLength, error });
      const original = withoutBcc(content);
      const from = parseSender(findHeader(fields, "from") ?? "")?.email ?? "";
      return prepareUnreadableMessage(original, from, await store.blobs.write(original), error.message);
    });
    if (!exported) return { ...transferred, message };
    const { fingerprint, size, results } = exported;
    const headers: typeof message.headers =
      results === undefined ? message.headers : [["Authentication-Results", results], ...message.headers];
    return { ...transferred, message: { ...message, headers, fingerprint, size } };
  }

  /** False if the store takes no more. */
  async function fileSome(): Promise<boolean> {
    try {
      await fileBatch();
      return true;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      stopped = isStoreBusy(error) && isInterrupted() ? "interrupted" : "unavailable";
      if (stopped === "unavailable") reason = error.cause instanceof Error ? error.cause.message : error.message;
      return false;
    }
  }

  /** Files the oldest messages of the window in one transaction. */
  async function fileBatch(): Promise<void> {
    const batch = window.splice(0, Math.min(pacing.room(), FILED_AT_ONCE));
    // All have written their blobs before the first failure is thrown.
    await Promise.allSettled(batch.map(({ transferred }) => transferred));
    const ready = await Promise.all(
      batch.map(async ({ transferred, ...rest }) => ({ ...rest, transferred: await transferred })),
    );
    for (const { bytes: size } of batch) bytes -= size;
    const outcomes = await pacing.run(batch.length, (begun) =>
      store.transact((tx) => {
        begun();
        const filed: ("imported" | "skipped")[] = [];
        let { bytes: used, quotaBytes } = readMailboxUsage(core, destination.mailboxId);
        for (const { transferred } of ready) {
          if (used + transferred.message.size > quotaBytes) break;
          const { duplicate } = fileTransferred(core, tx, transferred);
          if (!duplicate) used += transferred.message.size;
          filed.push(duplicate ? "skipped" : "imported");
        }
        return filed;
      }),
    );
    outcomes.forEach((outcome, i) => {
      tally.count((ready[i] as (typeof ready)[number]).source, outcome);
    });
    if (outcomes.length < batch.length) stopped = "quota";
    onProgress(tally.total);
  }

  let takesMore = true;
  for await (const found of messages) {
    if (isInterrupted()) {
      stopped = "interrupted";
      break;
    }
    if ("reason" in found) {
      tally.fail({ path: found.path, format: "unknown" }, { place: found.path, reason: found.reason });
      continue;
    }
    if ("known" in found) {
      tally.count(found.source, "skipped");
      continue;
    }
    admit(found);
    while (!stopped && (window.length >= WINDOW || bytes > WINDOW_BYTES)) takesMore = await fileSome();
    if (stopped) break;
  }
  while (takesMore && window.length > 0 && stopped !== "quota") takesMore = await fileSome();
  // Waits until the parsers have finished the files that they are writing.
  await Promise.allSettled(window.map(({ transferred }) => transferred));
  return { ...tally.total, ...(stopped && { stopped }), ...(reason !== undefined && { reason }) };
}

/* The result of an import: counts in all and by source, with a reason for each message that failed. */

export interface Failure {
  /** A file, or a position in it. */
  place: string;
  reason: string;
}

export interface SourceTally {
  path: string;
  format: string;
  imported: number;
  /** Already in the mailbox, or deleted at the source. */
  skipped: number;
  failed: number;
  /** The first failures. */
  failures: Failure[];
}

export interface Tally {
  imported: number;
  skipped: number;
  failed: number;
  sources: SourceTally[];
}

const MOST_FAILURES = 100;

function createTally() {
  const sources = new Map<string, SourceTally>();
  const total: Tally = { imported: 0, skipped: 0, failed: 0, sources: [] };

  function of({ path, format }: Pick<SourceTally, "path" | "format">): SourceTally {
    let source = sources.get(path);
    if (!source) {
      source = { path, format, imported: 0, skipped: 0, failed: 0, failures: [] };
      sources.set(path, source);
      total.sources.push(source);
    }
    return source;
  }

  return {
    total,
    count(source: Pick<SourceTally, "path" | "format">, outcome: "imported" | "skipped"): void {
      of(source)[outcome]++;
      total[outcome]++;
    },
    fail(source: Pick<SourceTally, "path" | "format">, failure: Failure): void {
      const counted = of(source);
      counted.failed++;
      total.failed++;
      if (counted.failures.length < MOST_FAILURES) counted.failures.push(failure);
    },
  };
}

/*
 * Pacing: how many messages a transaction takes. Beside a running server transactions are short (under 50 ms), because
 * the server's event loop waits while another process writes; without one they are longer, since each costs an fsync.
 * The number follows from the time that the last transactions took.
 */

const BESIDE_SERVER_MS = 20;
const ALONE_MS = 600;
/** Fewest messages per transaction: on a slow disk the commit takes the time, not the messages. */
const FEWEST = 8;
const MOST = 400;
/** How often to check whether a server runs. */
const LOOK_MS = 500;

export interface Pacing {
  /** Messages for the next transaction. */
  room(): number;
  /**
   * Runs a transaction of `count` messages, which calls `begun` when it has the lock; then lets other writers in. Waits for
   * as long as another process keeps the store busy, unless it is interrupted. @throws as Store.transact
   */
  run<T>(count: number, transaction: (begun: () => void) => T): Promise<T>;
  /** True while a server runs on the folder. */
  isServed(): boolean;
}

export function createPacing({ site: { folder }, runtime, log }: Core, isInterrupted = () => false): Pacing {
  let room = FEWEST;
  let served = isDataFolderClaimed(folder);
  let lookedAt = runtime.now();

  async function whenFree<T>(transaction: () => T): Promise<T> {
    for (;;) {
      try {
        return transaction();
      } catch (error) {
        if (!isStoreBusy(error) || isInterrupted()) throw error;
        log.warn("another process keeps the store busy; waiting for it");
        await pause(runtime, BESIDE_SERVER_MS);
      }
    }
  }

  return {
    room: () => room,
    isServed: () => isDataFolderClaimed(folder),
    async run(count, transaction) {
      let startedAt = runtime.now();
      if (startedAt - lookedAt >= LOOK_MS) {
        served = isDataFolderClaimed(folder);
        lookedAt = startedAt;
      }
      const result = await whenFree(() =>
        transaction(() => {
          startedAt = runtime.now();
        }),
      );
      const took = Math.max(1, runtime.now() - startedAt);
      const fitting = Math.floor((count * (served ? BESIDE_SERVER_MS : ALONE_MS)) / took);
      room = Math.min(MOST, Math.max(FEWEST, Math.min(fitting, 2 * room)));
      // SQLite's locks are not fair: another transaction at once would keep the server waiting.
      if (served) await pause(runtime, Math.min(took, BESIDE_SERVER_MS));
      return result;
    },
  };
}

/* The parsers of an import: the appliance's pool, with more jobs queued at each parser. */

/** Jobs queued at a parser, to last through a transaction, in which the main thread hands out none. */
const IN_HAND = 32;

/** `start`: for tests. */
export function openImportParser(
  { site: { folder }, store: { remote }, runtime, log }: Core,
  start?: StartParser,
): ParserPool {
  return createParserPool({
    ...(start && { start }),
    runtime,
    log,
    blobFolder: join(folder, "blobs"),
    // The server empties its own at each start.
    ...(remote && { remote, stageFolder: join(folder, BLOB_CACHE, `.import-${process.pid}`) }),
    names: createDnsCache(runtime),
    mostInHand: IN_HAND,
  });
}
