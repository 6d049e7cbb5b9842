/**
 * Amounts that requests of all workspaces share while they are under way (rules: Shares): places of requests that wait,
 * streams, uploads, and bytes of bodies, of messages that mail apps append, and of answers.
 */
import { AppError, unavailable } from "../base/errors.ts";
import { largeMessageMemoryLimit, memoryLimit } from "../base/memory.ts";
import type { Metrics } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import { createShares, type Held, type Sharer, type Shares } from "../base/shares.ts";
import { createUnreadAnswerLimit } from "./unread-answers.ts";

const MB = 1_048_576;
const MOST_WAITING = 100;
const MOST_WAITING_OF_KEY = 4;
const MOST_STREAMS = 500;
/** Pages of the app that a person has open. */
const MOST_STREAMS_OF_PERSON = 12;
/** Requests with files. They go to the disk. */
const MOST_UPLOADS = 48;
const MOST_UPLOADS_OF_PERSON = 12;
/** Bytes of JSON. While a body is read, checked and composed, it takes about five times its size. */
const MOST_BODIES = 64 * MB;
const MOST_BODIES_OF_PERSON = 24 * MB;
/** A person may hold one part in so many of the bytes of messages that mail apps append. */
const APPENDING_AT_ONCE = 4;

/** Counts `amount` more as under way. @throws AppError rate_limited, server_error with status 503 */
export type Count = (amount: number) => void;

/** Refuses what has no room, and does not queue it, because waiting requests take memory. `what` names the amount in the refusal. */
function createBudget(shares: Shares, what: string) {
  return {
    shares,
    /** Does `work`. The amounts that it counts stay counted until it has ended. */
    async within<T>(who: Sharer, work: (count: Count) => Promise<T>): Promise<T> {
      const holding: Held[] = [];
      try {
        return await work((amount) => {
          const held = shares.take(who, amount);
          if (held === "yours") {
            const message = `Too many ${what} of yours are under way: try again when they have ended`;
            throw new AppError("rate_limited", message, { retryAfter: 5 });
          }
          if (held === "all") throw unavailable(`Too many ${what} are under way: try again in a moment`);
          holding.push(held);
        });
      } finally {
        for (const { release } of holding) release();
      }
    },
  };
}

export type Pools = ReturnType<typeof createRequestShares>;

/** `mostConnections`: limit of HTTP connections. `mostUnread`: bytes of answers that nobody has read yet. */
export function createRequestShares({
  mostConnections,
  mostUnread = memoryLimit() / 8,
  runtime,
}: {
  mostConnections: number;
  mostUnread?: number;
  runtime: Pick<Runtime, "setTimer">;
}) {
  const shares = (most: number, limits: { mostOfPerson?: number; mostOfKey?: number }) =>
    createShares({ most, ...limits, runtime });
  return {
    answers: createUnreadAnswerLimit({ most: mostUnread, runtime }),
    waits: shares(Math.min(MOST_WAITING, Math.floor(mostConnections / 4)), { mostOfKey: MOST_WAITING_OF_KEY }),
    streams: shares(Math.min(MOST_STREAMS, Math.floor(mostConnections / 2)), { mostOfPerson: MOST_STREAMS_OF_PERSON }),
    uploads: createBudget(shares(MOST_UPLOADS, { mostOfPerson: MOST_UPLOADS_OF_PERSON }), "uploads"),
    appended: shares(largeMessageMemoryLimit(), { mostOfPerson: largeMessageMemoryLimit() / APPENDING_AT_ONCE }),
    bodies: createBudget(
      shares(Math.min(MOST_BODIES, largeMessageMemoryLimit()), { mostOfPerson: MOST_BODIES_OF_PERSON }),
      "large requests",
    ),
  };
}

/** The shares of each pool, by its name. */
export const listRequestShares = ({
  answers,
  waits,
  streams,
  uploads,
  bodies,
  appended,
}: Pools): Record<string, Shares> => ({
  answers: answers.shares,
  waits,
  streams,
  uploads: uploads.shares,
  bodies: bodies.shares,
  appended,
});

/** Registers what is held of each pool, and how often there was no room. */
export function registerRequestShareMetrics(metrics: Pick<Metrics, "gauge" | "counted">, pools: Pools): void {
  const all = Object.entries(listRequestShares(pools));
  metrics.gauge(
    "mailroom_shared",
    "What requests hold of what they share, and how much there is, in requests or bytes",
    () =>
      all.flatMap(([pool, { held, most }]) => [
        [{ pool, kind: "held" }, held()],
        [{ pool, kind: "most" }, most],
      ]),
  );
  metrics.gauge("mailroom_answers_waiting", "Requests that wait until earlier answers are read", () => [
    [{}, pools.answers.shares.waiting()],
  ]);
  metrics.counted(
    "mailroom_shared_refusals_total",
    "Requests without room in what they share, as their person or key, or others, hold it",
    () =>
      all.flatMap(([pool, { refused }]) =>
        Object.entries(refused()).map(([by, count]) => [{ pool, by }, count] as const),
      ),
  );
}
