/**
 * Import: messages are read from where they were kept, prepared by the parser workers that also prepare what arrives, and
 * filed in the order they were found in.
 *
 *   sources.ts, imap.ts ─► unwrap.ts ─► placement.ts ─► parser-pool.ts ─► mailbox/importing.ts, in batches
 *
 * Invariants: a message that the mailbox has is skipped, so an import that broke off, however, goes on when it is
 * repeated. A message is filed whole or not at all. What no parser can read is filed with its original attached. At most
 * a window of messages is in memory, whatever there is to import.
 */

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { isUnavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { KeptMessage } from "../mailbox/importing.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { originalOnly } from "../mailbox/original-only.ts";
import { parseSender } from "../message/address.ts";
import { fingerprintOf } from "../message/fingerprint.ts";
import { headerOf } from "../message/headers.ts";
import { firstMessageId } from "../message/message-id.ts";
import { withoutBcc } from "../message/original.ts";
import { createDnsCache } from "../net/dns-cache.ts";
import { isClaimed } from "../store/claim.ts";
import type { Store } from "../store/store.ts";
import { createParserPool, type ParserPool, type StartWorker, UnparseableError } from "../workers/parser-pool.ts";
import { type Destination, type Placement, placementOf } from "./placement.ts";
import type { FoundMessage, KnownMessage, NotFound, Source } from "./sources.ts";
import { type Unwrapped, unwrap } from "./unwrap.ts";

/** Of larger messages sources give only the beginning; they are told, and not imported. */
export const LARGEST_MESSAGE = 64 * 1024 * 1024;
/** Messages being prepared or waiting to be filed, and their bytes; a larger one goes alone. */
const WINDOW = 320;
const WINDOW_BYTES = 8 * 1024 * 1024;
/**
 * Messages of a transaction, at most, so that the workers have some in hand meanwhile. The search index writes out a segment
 * for each transaction, and few large ones cost less to merge than many small ones.
 */
const FILED_AT_ONCE = 256;

export interface ImportParts {
  store: Pick<Store, "transact" | "blobs">;
  mailbox: Pick<Mailbox, "fileKept" | "isKept" | "usage">;
  parser: Pick<ParserPool, "prepareKept">;
  pacing: Pacing;
  runtime: Pick<Runtime, "now">;
  log: Log;
}

export interface ImportRequest {
  messages: AsyncIterable<FoundMessage | NotFound | KnownMessage>;
  destination: Destination;
  /** Whether somebody asked to stop; what is in hand is filed. */
  isInterrupted(): boolean;
  /** Told after each batch. */
  onProgress(tally: Tally): void;
}

export interface ImportResult extends Tally {
  /** Why it stopped before the end. */
  stopped?: "interrupted" | "quota" | "unavailable";
  /** Of `unavailable`: what the store or the file system said. */
  reason?: string;
}

/** A message on its way. */
interface Pending {
  source: Source;
  place: string;
  bytes: number;
  kept: Promise<KeptMessage>;
}

/** When the store cannot take more, a full disk for instance, it stops; what was filed before stays. */
export async function importMail(
  { store, mailbox, parser, pacing, runtime, log }: ImportParts,
  { messages, destination, isInterrupted, onProgress }: ImportRequest,
): Promise<ImportResult> {
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
    const unwrapped = unwrap(found);
    if (unwrapped.bytes.byteLength === 0) {
      tally.fail(source, { place, reason: "empty" });
      return;
    }
    const placement = placementOf(unwrapped, source, destination, runtime.now());
    if (!placement || isThere(unwrapped, placement)) {
      tally.count(source, "skipped");
      return;
    }
    const kept = prepare(unwrapped, placement);
    // Looked at when its turn comes.
    kept.catch(() => {});
    window.push({ source, place, bytes: unwrapped.bytes.byteLength, kept });
    bytes += unwrapped.bytes.byteLength;
  }

  const isThere = ({ bytes: content, fields }: Unwrapped, { mailboxId, kind, exported }: Placement): boolean =>
    mailbox.isKept({
      mailboxId,
      kind,
      messageId: firstMessageId(headerOf(fields, "message-id") ?? ""),
      fingerprint: () => exported?.fingerprint ?? fingerprintOf(content),
    });

  async function prepare({ bytes: content, fields }: Unwrapped, placement: Placement): Promise<KeptMessage> {
    const { exported, ...kept } = placement;
    const message = await parser.prepareKept(content).catch(async (error) => {
      if (!(error instanceof UnparseableError)) throw error;
      log.error("message cannot be parsed", { size: content.byteLength, error });
      const original = withoutBcc(content);
      const from = parseSender(headerOf(fields, "from") ?? "")?.email ?? "";
      return originalOnly(original, from, await store.blobs.write(original), error.message);
    });
    if (!exported) return { ...kept, message };
    const { fingerprint, size, results } = exported;
    const headers: typeof message.headers =
      results === undefined ? message.headers : [["Authentication-Results", results], ...message.headers];
    return { ...kept, message: { ...message, headers, fingerprint, size } };
  }

  async function fileSome(): Promise<void> {
    try {
      await fileBatch();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      reason = error.cause instanceof Error ? error.cause.message : error.message;
      stopped = "unavailable";
    }
  }

  /** Files the oldest of the window, as many as a transaction may have. */
  async function fileBatch(): Promise<void> {
    const batch = window.splice(0, Math.min(pacing.room(), FILED_AT_ONCE));
    // One that fails leaves none of the others half written.
    await Promise.allSettled(batch.map(({ kept }) => kept));
    const ready = await Promise.all(batch.map(async ({ kept, ...rest }) => ({ ...rest, kept: await kept })));
    for (const { bytes: size } of batch) bytes -= size;
    const outcomes = await pacing.run(batch.length, (begun) =>
      store.transact((tx) => {
        begun();
        const filed: ("imported" | "skipped")[] = [];
        let { bytes: used, quotaBytes } = mailbox.usage(destination.mailboxId);
        for (const { kept } of ready) {
          if (used + kept.message.size > quotaBytes) break;
          const { duplicate } = mailbox.fileKept(tx, kept);
          if (!duplicate) used += kept.message.size;
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
    while (!stopped && (window.length >= WINDOW || bytes > WINDOW_BYTES)) await fileSome();
    if (stopped) break;
  }
  while (window.length > 0 && (stopped === undefined || stopped === "interrupted")) await fileSome();
  // What is being written ends, and leaves no half of a file behind.
  await Promise.allSettled(window.map(({ kept }) => kept));
  return { ...tally.total, ...(stopped && { stopped }), ...(reason !== undefined && { reason }) };
}

/* What came of an import: counted in all and by source, with a reason for each message that was not taken. */

export interface Failure {
  /** A file, or where in it. */
  place: string;
  reason: string;
}

export interface SourceTally {
  path: string;
  format: string;
  imported: number;
  /** There already, or deleted where it was kept. */
  skipped: number;
  failed: number;
  /** The first of them. */
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
 * Transactions of as many messages as fit a time: short beside a running server, whose event loop waits for the store
 * while another process writes (architecture: bulk commands write in batches under 50 ms), longer without one, since each
 * costs an fsync. How many fit is learned from the last ones.
 */

const BESIDE_SERVER_MS = 20;
const ALONE_MS = 600;
/** Even if they take longer: on a slow disk it is the commit that does. */
const FEWEST = 8;
const MOST = 400;
/** How long a look at whether a server runs is good for. */
const LOOK_MS = 500;

export interface Pacing {
  /** Messages that the next transaction may have. */
  room(): number;
  /** Runs a transaction of `count` messages, which says when it has `begun`, and then leaves the store to others. */
  run<T>(count: number, transaction: (begun: () => void) => T): Promise<T>;
  /** Whether a server runs on the folder. */
  isServed(): boolean;
}

/** `folder`: the data folder. */
export function createPacing({
  folder,
  runtime,
}: {
  folder: string;
  runtime: Pick<Runtime, "now" | "setTimer">;
}): Pacing {
  let room = FEWEST;
  let served = isClaimed(folder);
  let lookedAt = runtime.now();
  return {
    room: () => room,
    isServed: () => isClaimed(folder),
    async run(count, transaction) {
      let startedAt = runtime.now();
      if (startedAt - lookedAt >= LOOK_MS) {
        served = isClaimed(folder);
        lookedAt = startedAt;
      }
      const result = transaction(() => {
        startedAt = runtime.now();
      });
      const took = Math.max(1, runtime.now() - startedAt);
      const fitting = Math.floor((count * (served ? BESIDE_SERVER_MS : ALONE_MS)) / took);
      room = Math.min(MOST, Math.max(FEWEST, Math.min(fitting, 2 * room)));
      // SQLite's locks are not fair: who asks again at once would keep the others waiting.
      if (served) await new Promise<void>((resolve) => runtime.setTimer(resolve, Math.min(took, BESIDE_SERVER_MS)));
      return result;
    },
  };
}

/* The parser workers of an import: those of the appliance, with more in hand, for here one thread waits for nobody. */

const MOST_WORKERS = 4;
/** While a transaction runs, workers get nothing new. */
const IN_HAND = 32;

/** `folder`: the data folder; `startWorker`: for tests. */
export function openParser(parts: {
  folder: string;
  runtime: Runtime;
  log: Log;
  startWorker?: StartWorker;
}): ParserPool {
  const { folder, ...rest } = parts;
  const { runtime } = rest;
  return createParserPool({
    ...rest,
    blobFolder: join(folder, "blobs"),
    names: createDnsCache(runtime),
    workers: Math.min(MOST_WORKERS, Math.max(1, availableParallelism() - 1)),
    mostInHand: IN_HAND,
  });
}
