/**
 * The lease: an object beside the replica that says which server may write. Its holder renews it by conditional writes;
 * whoever finds it unchanged for a whole term, by its own clock, may take it, in an epoch of its own. Clocks of
 * machines are never compared.
 *
 * Invariant: a holder counts its term from the moment at which it *sent* the last write that succeeded, and ends before
 * a taker, which counts from the moment at which it *received* it, may begin.
 */
import { pause } from "../base/pause.ts";
import { base32, type Runtime } from "../base/runtime.ts";
import { toIsoTime } from "../base/time.ts";
import { S3Error, type S3Objects, type WriteCondition } from "../net/s3.ts";
import type { Identity, KnownIdentity } from "./replica-identity.ts";

/** The lease is over when it was unchanged for so long, ms. */
export const TERM_MS = 30_000;
/**
 * The holder stops this long after it sent its last renewal. The rest of the term is for clocks that differ, and for stopping.
 */
export const HOLD_MS = 22_000;
/** Pauses between renewals, and after one that failed. */
const RENEW_MS = 3_000;
const RETRY_MS = 1_000;
/** A lease that this folder wrote last and did not release is another's, on a copy of it, if it changes within this time. */
const COPY_MS = RENEW_MS + 2_000;
/** Pause between looks at another server's lease. */
const LOOK_MS = 1_000;

const KEY = "lease";
const LAST_EPOCH = 1_000_000_000;
/** Characters of what a lease says. */
const LONGEST_TEXT = 100;
const LONGEST_URL = 2_048;
const EPOCHS = "epochs/";

/** Path of the replica of an epoch, below the prefix. */
export const epochPath = (epoch: number): string => `${EPOCHS}${epoch}`;

export interface Lease {
  readonly epoch: number;
  /** Random id of a data folder. */
  readonly holder: string;
  /** Random text, a new one in each write: ETags are hashes of the content. */
  readonly nonce: string;
  readonly released: boolean;
  /** Base URL of the holder. */
  readonly url: string;
  /** For people: no program reads it. */
  readonly renewedAt: string;
}

export interface SeenLease extends Lease {
  readonly etag: string;
}

/** The lease as it is; undefined if there is none. @throws S3Error also for one that no server writes */
export async function readReplicaLease(objects: Pick<S3Objects, "get">): Promise<SeenLease | undefined> {
  const found = await objects.get(KEY);
  if (!found) return undefined;
  const lease = readJson(found.text);
  const { epoch, holder, nonce, released, url, renewedAt } = lease;
  const isOne =
    isEpoch(epoch) &&
    [holder, nonce, renewedAt].every((text) => typeof text === "string" && text.length <= LONGEST_TEXT) &&
    typeof url === "string" &&
    url.length <= LONGEST_URL &&
    /^https?:\/\/[!-~]+$/.test(url);
  if (!isOne) throw new S3Error(`the object ${KEY} in the replica is no lease`, {});
  return { ...(lease as unknown as Lease), etag: found.etag, released: released === true };
}

/** False also for one after which no other could come. */
const isEpoch = (value: unknown): boolean =>
  Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= LAST_EPOCH;

function readJson(text: string): Record<keyof Lease, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return Object({});
  }
}

/** Thrown when another server has the lease, or has had it after this one. */
export class LeaseTaken extends Error {
  override readonly name = "LeaseTaken";
  readonly lease: Lease;
  constructor(message: string, lease: Lease) {
    super(message);
    this.lease = lease;
  }
}

/**
 * Proves that the server honours the conditions of writes, without which two servers could both hold the lease.
 * @throws Error if it does not; S3Error
 */
export async function probeConditionalWrites(objects: LeaseObjects, runtime: Pick<Runtime, "randomBytes">) {
  const key = `probe-${newNonce(runtime)}`;
  const write = (text: string, condition: WriteCondition) => objects.put(key, text, condition);
  const refuse = (header: string): never => {
    throw new Error(
      `the S3 server does not honour ${header} of a write: with it, two servers could both take themselves for the one that writes; use another for MAILROOM_REPLICA`,
    );
  };
  try {
    const etag = await write("1", { absent: true });
    if (etag === undefined) refuse("If-None-Match");
    if ((await write("2", { absent: true })) !== undefined) refuse("If-None-Match");
    const next = await write("3", { etag: etag as string });
    if (next === undefined || next === etag) refuse("If-Match");
    if ((await write("4", { etag: etag as string })) !== undefined) refuse("If-Match");
    if ((await objects.get(key))?.text !== "3") refuse("If-Match");
  } finally {
    await objects.remove(key).catch(() => {});
  }
}

const newNonce = (runtime: Pick<Runtime, "randomBytes">): string => base32(runtime.randomBytes(24));

export interface Observer {
  /** `askedAt`: when the look at `lease` began, as of the runtime's `elapsed`. `changed` since the look before. */
  look(lease: Lease, askedAt: number): "first" | "changed" | "same" | "over";
  /** Returns another observer that has seen the same. */
  copy(): Observer;
}

/** Tells by repeated looks whether a lease is over: unchanged for a term, ms. */
export function createLeaseObserver(
  { elapsed }: Pick<Runtime, "elapsed">,
  termMs = TERM_MS,
  before?: { nonce: string; at: number },
): Observer {
  let seen = before;
  return {
    copy: () => createLeaseObserver({ elapsed }, termMs, seen),
    look({ nonce }, askedAt) {
      if (seen?.nonce !== nonce) {
        const before = seen;
        seen = { nonce, at: elapsed() };
        return before ? "changed" : "first";
      }
      return askedAt - seen.at >= termMs ? "over" : "same";
    },
  };
}

type LeaseObjects = Pick<S3Objects, "get" | "put" | "remove" | "folders">;

export interface LeaseParts {
  objects: LeaseObjects;
  runtime: Pick<Runtime, "now" | "elapsed" | "setTimer" | "randomBytes">;
  /** Place of the replica (replica-identity.ts). */
  place: string;
  /** Base URL of this server. */
  url: string;
  /** Keeps the identity of the data folder: before each write of the lease, and after the first one of an epoch. */
  keep(identity: Identity): Promise<void> | void;
  /** Earlier observations of the lease. A change since then may be of a server that has ended since. */
  observer?: Observer;
}

/**
 * Takes the lease for this server. With the identity that wrote it last: in the same epoch, and at once unless the folder
 * may be a copy of one whose server goes on. Without one: once it is released or over, in the next epoch.
 * @throws LeaseTaken if another holds it, took over from this folder, or wrote to the replica from a copy of it since;
 * S3Error; the reason of `signal`
 */
export async function takeReplicaLease(
  parts: LeaseParts,
  identity: KnownIdentity | undefined,
  signal?: AbortSignal,
): Promise<HeldLease> {
  const { objects, runtime } = parts;
  const holder = identity?.holder ?? newNonce(runtime);
  const { observer = createLeaseObserver(runtime, identity ? COPY_MS : TERM_MS) } = parts;
  for (let isFirst = true; ; isFirst = false) {
    signal?.throwIfAborted();
    const askedAt = runtime.elapsed();
    const lease = await readReplicaLease(objects);
    let held: HeldLease | undefined;
    if (!lease) {
      const epochs = (await objects.folders(EPOCHS)).map(Number).filter(isEpoch);
      held = await hold(parts, { holder, epoch: 1 + Math.max(0, ...epochs) }, { absent: true });
    } else if (identity) {
      if (lease.holder !== holder) throw new LeaseTaken(`${describe(lease)}, and has taken over from this one`, lease);
      if (!identity.nonces.includes(lease.nonce)) throw new LeaseTaken(describeCopy(lease), lease);
      if (identity.isHere || lease.released || observer.look(lease, askedAt) === "over") {
        held = await hold(parts, { holder, epoch: lease.epoch }, { etag: lease.etag }, lease.nonce);
      } else await pause(runtime, LOOK_MS, signal);
    } else {
      const sight = observer.look(lease, askedAt);
      if (lease.released || sight === "over") {
        held = await hold(parts, { holder, epoch: lease.epoch + 1 }, { etag: lease.etag });
      } else if (sight === "changed" && !isFirst) throw new LeaseTaken(describe(lease), lease);
      else await pause(runtime, LOOK_MS, signal);
    }
    if (held) return held;
  }
}

const describe = ({ url, epoch, renewedAt }: Lease): string =>
  `the server ${url} writes to the replica, in epoch ${epoch} (its lease is of ${renewedAt})`;

const describeCopy = (lease: Lease): string =>
  `${describe(lease)}, from a copy of this data folder: what this one has is older. If it is to go on all the same, remove its replica.json`;

/** Why a server may not write any more. */
export type Loss =
  /** Another server took the lease; undefined: the lease is gone. */
  | { reason: "taken"; by: Lease | undefined }
  /** This server did not renew the lease in time. */
  | { reason: "sight"; error: string };

export interface HeldLease {
  readonly epoch: number;
  /** False from the moment on from which another may have it. */
  isCertain(): boolean;
  /** Resolves when a look that began after the call has found it ours. @throws Error if not; S3Error */
  see(): Promise<void>;
  /** Called when it is lost: once with `taken`, and with `sight` once each time until it is renewed again. */
  onLoss(listener: (loss: Loss) => void): void;
  /** `age`: since it was last renewed, ms. `error`: of the renewals since. */
  state(): { epoch: number; age: number; error: string | undefined };
  /** Ends the renewals. */
  stop(): Promise<void>;
  /** Ends the renewals, and leaves the lease to anybody, if it can. */
  release(): Promise<void>;
}

/** Own nonces that are recognised: more than are written while one request is under way. */
const REMEMBERED = 32;

/**
 * Writes the lease if the condition is met, and renews it from then on; undefined if it is not. `last`: nonce of the
 * lease that it goes on with. @throws S3Error
 */
async function hold(
  { objects, runtime, place, url, keep }: LeaseParts,
  { holder, epoch }: Pick<Lease, "holder" | "epoch">,
  first: WriteCondition,
  last?: string,
): Promise<HeldLease | undefined> {
  /** Ours, the newest last: also of writes of which no answer came, which may still happen. */
  let remembered: string[] = [];
  /** The last one that was certainly written, and those tried since. */
  let open = last === undefined ? [] : [last];
  let sentAt = 0;
  let isTaken = false;
  let isOutOfSight = false;
  let error: string | undefined;
  const listeners: ((loss: Loss) => void)[] = [];
  const over = new AbortController();

  const lose = (loss: Loss): void => {
    for (const listener of listeners) listener(loss);
  };

  /** The new ETag; undefined if the condition is not met. */
  async function write(condition: WriteCondition, released = false): Promise<string | undefined> {
    const nonce = newNonce(runtime);
    const goesOn = open.length > 0;
    open = [...open, nonce].slice(-REMEMBERED);
    remembered = [...remembered, nonce].slice(-REMEMBERED);
    if (goesOn) await keep({ place, holder, epoch, nonces: open });
    const lease: Lease = { epoch, holder, nonce, released, url, renewedAt: toIsoTime(runtime.now()) };
    const startedAt = runtime.elapsed();
    const written = await objects.put(KEY, `${JSON.stringify(lease)}\n`, condition);
    if (written === undefined) return undefined;
    open = [nonce];
    sentAt = startedAt;
    if (!goesOn) await keep({ place, holder, epoch, nonces: open });
    return written;
  }

  const taken = await write(first);
  if (taken === undefined) return undefined;
  let etag = taken;

  /** The lease, if it is ours. @throws Error if it is not; S3Error */
  async function look(): Promise<SeenLease> {
    const lease = await readReplicaLease(objects);
    if (lease && lease.holder === holder && remembered.includes(lease.nonce)) return lease;
    if (!isTaken) {
      isTaken = true;
      over.abort();
      lose({ reason: "taken", by: lease });
    }
    throw new Error("this server has lost the lease of the replica");
  }

  async function renew(): Promise<void> {
    try {
      const next = await write({ etag });
      // Not met: another has it, or an earlier write of ours happened without an answer.
      if (next === undefined) {
        ({ etag } = await look());
        return;
      }
      etag = next;
      error = undefined;
      isOutOfSight = false;
    } catch (failure) {
      error = failure instanceof Error ? failure.message : String(failure);
    }
  }

  const isInTime = (): boolean => runtime.elapsed() - sentAt < HOLD_MS;

  async function watch(): Promise<void> {
    while (!over.signal.aborted) {
      const left = sentAt + HOLD_MS - runtime.elapsed();
      await pause(runtime, left > 0 ? left : RETRY_MS, over.signal);
      if (over.signal.aborted || isInTime() || isOutOfSight) continue;
      isOutOfSight = true;
      lose({ reason: "sight", error: error ?? "no renewal was answered" });
    }
  }

  async function keepRenewing(): Promise<void> {
    while (!over.signal.aborted) {
      await pause(runtime, error === undefined ? RENEW_MS : RETRY_MS, over.signal);
      if (!over.signal.aborted) await renew();
    }
  }

  void watch();
  const renewals = keepRenewing();

  async function stop(): Promise<void> {
    over.abort();
    await renewals;
  }

  return {
    epoch,
    isCertain: () => !isTaken && isInTime(),
    // Its ETag may be of before a renewal that has ended meanwhile.
    see: async () => void (await look()),
    onLoss: (listener) => void listeners.push(listener),
    state: () => ({ epoch, age: runtime.elapsed() - sentAt, error }),
    stop,
    async release() {
      await stop();
      if (!isTaken) await write({ etag }, true);
    },
  };
}
