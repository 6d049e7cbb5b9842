/**
 * Prepares messages in workers: parsing, composing, sanitising, authentication, attachments and signatures never stall the
 * event loop. A message that a parser hangs on or dies of costs that message its parsing, and other messages only time.
 *
 * The dispatcher (dispatcher.ts) hands jobs (jobs.ts) to workers (slot.ts, parser-worker.ts) and answers the workers' DNS
 * questions.
 */
import type { Authentication } from "../authentication/dmarc.ts";
import type { Arrival } from "../authentication/evidence.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { type Composition, isComposition } from "../message/composition.ts";
import { type Read, type ReadHtml, type Reading, sizeOfReading } from "../message/reading.ts";
import type { DnsCache } from "../net/dns-cache.ts";
import { canonicalAddress, sourceOfAddress } from "../net/ip.ts";
import type { Source } from "../smtp/spool.ts";
import { createDispatcher, type Work } from "./dispatcher.ts";
import type { MessageJob, Prepared, PreparedInbound, PreparedOutbound, Signing } from "./jobs.ts";
import type { ParserWorker } from "./slot.ts";

export interface ParserPool {
  /**
   * Prepares a message for filing. `size`: bytes, of one in a file.
   * @throws UnparseableError when it cannot be; AppError server_error 503 when the store is full, too much waits, or the
   * pool stopped
   */
  prepare(work: Work, source: Source | Composition, size?: number): Promise<PreparedMessage>;
  /** As `prepare`, as bulk work, for a message that was kept elsewhere: no report and no junk words are looked for. */
  prepareKept(source: Source): Promise<PreparedMessage>;
  /**
   * As `prepare` for a message that arrives, charged to its peer. It is authenticated, and its topmost header field says
   * with what result.
   */
  prepareInbound(source: Source, size: number, arrival: Arrival): Promise<PreparedInbound>;
  /**
   * Authenticates a message that cannot be prepared, which readers will be shown as from `shownFrom`; "" for nobody.
   * @throws as prepare
   */
  authenticate(source: Source, size: number, arrival: Arrival, shownFrom: string): Promise<Authentication>;
  /**
   * As `prepare` for a message that is being sent, interactive, with the bytes to transmit. `account`: the source.
   * @throws also what dkim.ts says of a bad key
   */
  prepareOutbound(account: string, source: Uint8Array | Composition, signing: Signing): Promise<PreparedOutbound>;
  /** Reads stored HTML for a caller, interactive. @throws UnparseableError when it cannot be; as prepare */
  read: ReadHtml;
  /** Ends the workers; the tasks that they had in hand reject as unavailable. */
  stop(): void;
}

export type StartWorker = (script: string) => ParserWorker;

export interface ParserPoolParts {
  /** Folder of the blobs. */
  blobFolder: string;
  names: DnsCache;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Most shared workers of arriving mail. */
  workers: number;
  /** Tasks that a worker has in hand at once. Default: enough to go on while the main thread commits and hands out nothing. */
  mostInHand?: number;
  /** The worker's script. */
  script?: string;
  /** Starts a worker on it. */
  startWorker?: StartWorker;
}

const MOST_IN_HAND = 8;
const BULK: Work = { kind: "bulk", source: "kept elsewhere" };

export function createParserPool({
  blobFolder,
  workers,
  mostInHand = MOST_IN_HAND,
  // In the single executable the worker's file lies beside the main one (entry naming [name]), hence the same address.
  script = new URL("./parser-worker.ts", import.meta.url).href,
  // Bun's; a browser's, whose types have precedence, has neither `ref` nor `unref`.
  startWorker = (script) => new Worker(script) as Worker & ParserWorker,
  ...parts
}: ParserPoolParts): ParserPool {
  const dispatcher = createDispatcher({ ...parts, workers, mostInHand, startWorker: () => startWorker(script) });

  const add = (work: Work, job: MessageJob | { reading: Reading }, size: number): Promise<Prepared> =>
    dispatcher.add(work, { ...job, blobFolder }, size);

  return {
    prepare: async (work, source, size = sizeOf(source)) => given(await add(work, { source }, size), "message").message,
    read: async <R extends Reading>(source: string, reading: R) =>
      given(await add({ kind: "interactive", source }, { reading }, sizeOfReading(reading)), "read").read as Read<R>,
    prepareKept: async (source) =>
      given(await add(BULK, { source, keptElsewhere: true }, sizeOf(source)), "message").message,
    prepareInbound: async (source, size, arrival) =>
      given(await add(arrivingFrom(arrival), { source, arrival }, size), "message", "authentication"),
    authenticate: async (source, size, arrival, shownFrom) =>
      given(await add(arrivingFrom(arrival), { source, arrival, shownFrom }, size), "authentication").authentication,
    prepareOutbound: async (account, source, signing) =>
      given(
        await add({ kind: "interactive", source: account }, { source, signing }, sizeOf(source)),
        "message",
        "content",
      ),
    stop: dispatcher.stop,
  };
}

const arrivingFrom = ({ ip }: Arrival): Work => ({ kind: "arriving", source: sourceOfAddress(canonicalAddress(ip)) });

/** The result of a job, with the parts that it was for. */
function given<K extends keyof Prepared>(prepared: Prepared, ...parts: K[]): Required<Pick<Prepared, K>> {
  const missing = parts.find((part) => prepared[part] === undefined);
  if (missing !== undefined) throw new Error(`the parser prepared a message without its ${missing}`);
  return prepared as Required<Pick<Prepared, K>>;
}

/** Bytes; of a message that is still to be composed an estimate. */
function sizeOf(source: Source | Composition): number {
  if (!isComposition(source)) return source.length;
  const { text = "", html = "", quoted, files = [] } = source;
  const attached = files.reduce((sum, { size }) => sum + size, 0);
  return attached + text.length + html.length + (quoted ? quoted.text.length + (quoted.html?.length ?? 0) : 0);
}
