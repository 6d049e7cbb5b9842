/**
 * The replica of this server: the lease that lets it write, Litestream that copies what it writes, and what both mean for
 * mail (rules: Replica).
 *
 *   commit ─► Litestream's sync ─► a look at the lease ─► 250 or 202      with replica.ack=replica, each shared
 *
 * Invariants: a server without the lease commits nothing. An acknowledged message is in the epoch that whoever takes the
 * lease next reads to its end: the lease was seen after the message was copied.
 */
import { Fenced, unavailable } from "../base/errors.ts";
import type { Metrics } from "../base/metrics.ts";
import { awaitAtMost, pause } from "../base/pause.ts";
import { formatS3Location, openS3, S3Error, type S3Location } from "../net/s3.ts";
import type { Core } from "../store/core.ts";
import { leaveCheckpoints } from "../store/wal.ts";
import { type HeldLease, LeaseTaken, type Loss, probeConditionalWrites, takeReplicaLease } from "./lease.ts";
import { createLitestream } from "./litestream.ts";
import { type Identity, type KnownIdentity, readReplicaIdentity, writeReplicaIdentity } from "./replica-identity.ts";

/** How long an acknowledgement waits for the replica, ms. */
const ACK_LIMIT_MS = 10_000;
/** Pause between rounds that no request waits for, which tell the lag. */
const ROUND_MS = 1_000;
/** Pause between tries to take the lease while the server of the replica cannot be reached. */
const RETRY_MS = 3_000;
/** Parts of the time for stopping: for the last round, and for Litestream to end. */
const LAST_ROUND_MS = 3_000;
const END_MS = 1_000;

const TODO_TAKEN =
  "This server takes no mail, sends none, and writes nothing any more. Make this machine the standby of the other (docs/standby.md).";

const takenOver = (why: string): Fenced => new Fenced(`${why}. ${TODO_TAKEN}`, true);

export interface ReplicaState {
  /** Undefined before the lease was taken. */
  epoch: number | undefined;
  /** Greatest age of a change that is committed here and not known to be in the replica, ms. */
  lag: number;
  /** Time since the lease was last renewed, ms. */
  leaseAge: number | undefined;
  /** True while the replica keeps up and the lease is renewed. */
  works: boolean;
  /** Why the replica does not keep up, as a sentence without its full stop. */
  reason: string | undefined;
  restarts: number;
}

export function createReplication(core: Core, location: S3Location) {
  const { store, options, runtime, log, site } = core;
  const { folder: data, baseUrl: url } = site;
  const objects = openS3(location, runtime);
  const litestream = createLitestream(core, location);
  const over = new AbortController();
  let lease: HeldLease | undefined;
  /** Set once this server may never write again. */
  let fenced: Fenced | undefined;
  const whenFenced = Promise.withResolvers<never>();
  whenFenced.promise.catch(() => {});
  /** When the first commit was made that no round has begun to cover, and that the one under way covers, epoch ms. */
  let waitingSince: number | undefined;
  let coveredSince: number | undefined;
  let reason: string | undefined;

  function fence(by: Fenced): void {
    if (fenced) return;
    fenced = by;
    litestream.kill();
    over.abort();
    log.error("this server may not write any more, and stops", { reason: by.message });
    whenFenced.reject(by);
  }

  function lost(loss: Loss): void {
    if (loss.reason === "taken") {
      const { by } = loss;
      fence(
        by
          ? takenOver(`${by.url} has taken over the replica, in epoch ${by.epoch}`)
          : new Fenced("the lease of the replica was removed: the next start begins a new epoch", false),
      );
    } else if (options.get("replica.onLost") === "stop") {
      const why = `the lease of the replica could not be renewed (${loss.error}), so another server may take over`;
      fence(new Fenced(`${why}. It is tried again at the next start; the setting replica.onLost says so`, false));
    } else {
      log.error("the replica is out of sight, and this server goes on: another may take over", { reason: loss.error });
    }
  }

  /** @throws Fenced if another has it or the replica is refused; S3Error */
  async function take(signal: AbortSignal): Promise<void> {
    await probeConditionalWrites(objects, runtime);
    const identity = readReplicaIdentity(data, location);
    const parts = {
      ...{ objects, runtime, url, place: formatS3Location(location) },
      keep: (identity: Identity) => writeReplicaIdentity(data, identity),
    };
    try {
      lease = await takeReplicaLease(parts, identity, signal);
    } catch (error) {
      throw error instanceof LeaseTaken ? takenOver(error.message) : error;
    }
    lease.onLoss(lost);
    log.info("the lease of the replica is taken", { epoch: lease.epoch });
  }

  /**
   * Takes the lease, again and again while the server of the replica cannot be reached. `evenIfRefused`: or refuses us.
   * @throws Fenced; S3Error; the reason of `signal`
   */
  async function takeAtLast(evenIfRefused: boolean, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        return await take(signal);
      } catch (error) {
        if (!(error instanceof S3Error) || (isRefusal(error) && !evenIfRefused)) throw error;
        reason = error.message;
        log.warn("the lease of the replica cannot be taken yet", { reason, retryInMs: RETRY_MS });
        await pause(runtime, RETRY_MS, signal);
        signal.throwIfAborted();
      }
    }
  }

  /** Goes on without a look at the lease, in the epoch that was its last. */
  async function goOn(epoch: number): Promise<void> {
    log.error("this server starts although it does not know whether another has taken over (replica.onLost)", {
      epoch,
    });
    try {
      await takeAtLast(true, over.signal);
    } catch (error) {
      if (over.signal.aborted) return;
      fence(error instanceof Fenced ? error : new Fenced(describeError(error), true));
    }
    if (lease && lease.epoch !== epoch)
      fence(new Fenced("the replica is in another epoch: the server starts anew", false));
  }

  /** Notes why the replica does not keep up. */
  function failed(error: unknown): never {
    if (reason === undefined) log.error("the replica does not get what happens here", { error });
    reason = describeError(error);
    throw error;
  }

  /** Resolves when the replica has what was committed before the call. @throws Error with the reason why not */
  const copied = shared(async () => {
    coveredSince ??= waitingSince;
    waitingSince = undefined;
    await litestream.sync(ACK_LIMIT_MS).catch(failed);
    if (reason !== undefined) log.info("the replica gets what happens here again");
    reason = undefined;
    coveredSince = undefined;
  });

  /** Resolves when the lease was seen after the call. @throws Error with the reason why not */
  const seen = shared(async () => {
    if (!lease) throw new Error("this server has not got the lease of the replica yet");
    await lease.see();
  });

  async function replicated(): Promise<void> {
    if (fenced) throw unavailable(fenced.message);
    if (options.get("replica.ack") === "local") return;
    try {
      const done = await awaitAtMost(
        runtime,
        ACK_LIMIT_MS,
        copied()
          .then(seen)
          .then(() => true),
      );
      if (!done) throw new Error(`the replica did not have it within ${ACK_LIMIT_MS / 1_000} s`);
    } catch (error) {
      throw unavailable("The message is not safe on the replica yet; try again", error);
    }
  }

  async function watchLag(): Promise<void> {
    while (!over.signal.aborted) {
      await pause(runtime, ROUND_MS, over.signal);
      if ((coveredSince ?? waitingSince) !== undefined && !over.signal.aborted) await copied().catch(() => {});
    }
  }

  /** Refuses to write without the lease: what this server wrote would be lost with it. @throws AppError server_error 503 */
  function requireLease(): void {
    if (fenced) throw unavailable(fenced.message);
    if (lease?.isCertain() || options.get("replica.onLost") === "serve") return;
    throw unavailable("The lease of the replica was not renewed in time; the server stops");
  }

  async function firstEpoch(signal: AbortSignal): Promise<number> {
    const known = readReplicaIdentity(data, location);
    if (known === undefined || options.get("replica.onLost") === "stop") await takeAtLast(false, signal);
    else
      await take(signal).catch((error) => {
        if (!(error instanceof S3Error)) throw error;
        void goOn(known.epoch);
      });
    return lease?.epoch ?? (known as KnownIdentity).epoch;
  }

  return {
    /**
     * Resolves when this server may write. With the setting replica.onLost at `serve`, a server that had the lease does
     * not wait for it. @throws Fenced; S3Error; Error if the replica cannot be used; the reason of `signal`
     */
    async start(signal: AbortSignal = over.signal): Promise<void> {
      const epoch = await firstEpoch(signal);
      leaveCheckpoints(store);
      store.inEveryCommit(requireLease);
      store.onCommit(() => {
        waitingSince ??= runtime.now();
      });
      store.replicateBy(replicated);
      litestream.start(epoch);
      void watchLag();
    },
    /** Rejects with Fenced when this server must end at once. */
    fenced: whenFenced.promise,
    state(): ReplicaState {
      const child = litestream.state();
      const seen = lease?.state();
      const ofChild = child.state === "failed" ? `litestream does not run: ${child.reason}` : undefined;
      const why = ofChild ?? seen?.error ?? reason;
      const since = coveredSince ?? waitingSince;
      return {
        epoch: seen?.epoch,
        lag: since === undefined ? 0 : Math.max(0, runtime.now() - since),
        leaseAge: seen?.age,
        works: why === undefined && lease?.isCertain() === true,
        reason: why,
        restarts: child.restarts,
      };
    },
    /** Sends the last of it, and leaves the lease to anybody if that was possible. */
    async stop(): Promise<void> {
      if (fenced) return;
      let isAllThere = false;
      if (lease) {
        isAllThere = await litestream.sync(LAST_ROUND_MS).then(
          () => true,
          (error) => {
            log.warn("the replica has not got the last of it", { error });
            return false;
          },
        );
      }
      over.abort();
      await litestream.stop(isAllThere ? END_MS : 0);
      if (isAllThere) {
        await lease?.release().catch((error) => log.warn("the lease of the replica is not released", { error }));
      } else await lease?.stop();
    },
  };
}

/** Runs `work` for callers that share it: each call resolves with a run that begins after it. */
function shared(work: () => Promise<void>): () => Promise<void> {
  let underWay: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  function begin(): Promise<void> {
    next = undefined;
    underWay = work().finally(() => {
      underWay = undefined;
    });
    return underWay;
  }
  return () => {
    if (next) return next;
    if (!underWay) return begin();
    next = underWay.catch(() => {}).then(begin);
    return next;
  };
}

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The server answered, and will answer the same again. */
const isRefusal = ({ status }: S3Error): boolean =>
  status !== undefined && status >= 400 && status < 500 && ![408, 409, 429].includes(status);

/** Registers the metrics of the replica. */
export function registerReplicaGauges({ gauge, counted }: Metrics, state: () => ReplicaState): void {
  gauge("mailroom_replica_lag_seconds", "Age of the oldest commit that the replica may lack", () => [
    [{}, state().lag / 1_000],
  ]);
  gauge("mailroom_replica_up", "Whether the replica keeps up, and the lease is renewed", () => {
    return [[{}, state().works ? 1 : 0]];
  });
  gauge("mailroom_replica_lease_age_seconds", "Time since this server renewed its lease", () => {
    const { leaseAge } = state();
    return leaseAge === undefined ? [] : [[{}, leaseAge / 1_000]];
  });
  gauge("mailroom_replica_epoch", "The epoch in which this server writes", () => {
    const { epoch } = state();
    return epoch === undefined ? [] : [[{}, epoch]];
  });
  counted("mailroom_replica_process_restarts_total", "How often the Litestream process was started again", () => [
    [{}, state().restarts],
  ]);
}
