/**
 * Gives a repeated request the answer of the first one (rules: Idempotency, Idempotency after a crash). Stores each key
 * with its answer. The only writer of idempotency_keys.
 *
 *   unused ──► in progress, known to this process alone ──► stored, in the transaction that accepts the message
 *     ▲               │ refused, or the process died                 │ retention.idempotencyHours
 *     └───────────────┴──────────────────────────────────────────────┘
 *
 * Invariant: a key is stored if and only if its request took effect. Two requests with one key never both run.
 */
import { createHash } from "node:crypto";
import { and, asc, eq, lt, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { idempotencyKeys } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

/** rules: Idempotency. */
export const LONGEST_KEY = 255;

/** Stores the answer, in the transaction that makes it true. May run twice, when the first transaction rolls back. */
export type RecordAnswer = (tx: Tx, answer: unknown) => void;

/** A request with an idempotency key. */
interface KeyedRequest {
  /** The API key of the request. Each API key has its own idempotency keys. */
  apiKeyId: string;
  key: string;
  /** Results of `hashRequest`. Requests that share one are the same. */
  fingerprints: readonly string[];
  /** The HTTP status of success. */
  status: number;
}

interface IdempotentAnswer {
  status: number;
  answer: unknown;
  /** True when the answer is that of an earlier request, and nothing was done for this one. */
  replayed: boolean;
}

export type Idempotency = ReturnType<typeof createIdempotency>;

const HOUR_MS = 3_600_000;
/** Rows that one transaction deletes. */
const PORTION = 500;
/** Time between two transactions that delete. */
const PAUSE_MS = 50;

const statements = prepared((db) => {
  const { apiKeyId, key, fingerprint, status, response, createdAt } = idempotencyKeys;
  return {
    find: db
      .select({ fingerprint, status, response, createdAt })
      .from(idempotencyKeys)
      .where(and(eq(apiKeyId, sql.placeholder("apiKeyId")), eq(key, sql.placeholder("key"))))
      .prepare(),
    put: db
      .insert(idempotencyKeys)
      .values({
        apiKeyId: sql.placeholder("apiKeyId"),
        key: sql.placeholder("key"),
        fingerprint: sql.placeholder("fingerprint"),
        status: sql.placeholder("status"),
        response: sql.placeholder("response"),
        createdAt: sql.placeholder("createdAt"),
      })
      // `once` has checked that an existing row has expired.
      .onConflictDoUpdate({
        target: [apiKeyId, key],
        set: {
          fingerprint: sql`excluded.fingerprint`,
          status: sql`excluded.status`,
          response: sql`excluded.response`,
          createdAt: sql`excluded.created_at`,
        },
      })
      .prepare(),
    oldest: db.select({ createdAt }).from(idempotencyKeys).orderBy(asc(createdAt)).limit(1).prepare(),
    expired: db
      .select({ apiKeyId, key })
      .from(idempotencyKeys)
      .where(lt(createdAt, sql.placeholder("before")))
      .orderBy(asc(createdAt))
      .limit(PORTION)
      .prepare(),
    remove: db
      .delete(idempotencyKeys)
      .where(and(eq(apiKeyId, sql.placeholder("apiKeyId")), eq(key, sql.placeholder("key"))))
      .prepare(),
  };
});

/**
 * Reads the key of a request, unchanged; undefined when the request has none.
 * @throws AppError bad_request for an invalid key, and for a header and a field that differ
 */
export function readIdempotencyKey(header: string | undefined, field: string | undefined): string | undefined {
  if (header !== undefined && field !== undefined && header !== field) {
    throw new AppError(
      "bad_request",
      "The header Idempotency-Key and the field idempotencyKey differ: give one of them",
    );
  }
  const key = header ?? field;
  if (key !== undefined && (key.length < 1 || key.length > LONGEST_KEY || !/^[\x20-\x7e]+$/.test(key))) {
    throw new AppError("bad_request", `An idempotency key must be 1 to ${LONGEST_KEY} printable ASCII characters`);
  }
  return key;
}

/**
 * Hashes a request as SHA-256 in hex. `asked` consists of JSON values; the order of their names makes no difference.
 */
export function hashRequest(operation: string, asked: unknown): string {
  const canonical = JSON.stringify(asked, (_, value) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
  return createHash("sha256").update(`${operation}\n${canonical}`).digest("hex");
}

export function createIdempotency({ store, options, runtime }: Core) {
  /** API key and idempotency key of each running request. */
  const inProgress = new Set<string>();
  let nextSweep = 0;

  /** Keys stored before this have expired, also those that are not deleted yet. */
  const earliest = (now: number): number => now - options.get("retention.idempotencyHours") * HOUR_MS;

  /** Finds the earlier request with the key. `same`: it has a fingerprint in common. */
  function find({
    apiKeyId,
    key,
    fingerprints,
  }: KeyedRequest): { same: boolean; answered: IdempotentAnswer } | undefined {
    const stored = statements(store.db).find.get({ apiKeyId, key });
    if (!stored || stored.createdAt < earliest(runtime.now())) return undefined;
    const same = stored.fingerprint.split(" ").some((fingerprint) => fingerprints.includes(fingerprint));
    return { same, answered: { status: stored.status, answer: stored.response, replayed: true } };
  }

  /** The answer to an earlier, equal request. */
  function earlier(request: KeyedRequest): IdempotentAnswer | undefined {
    const found = find(request);
    return found?.same ? found.answered : undefined;
  }

  /**
   * Runs `work`, unless the request was answered before. `work` must call `record` in the transaction that makes its
   * answer true. A rejection frees the key.
   * @throws AppError idempotency_in_progress, idempotency_key_reused, and errors of `work`
   */
  async function once(
    request: KeyedRequest,
    work: (record: RecordAnswer) => Promise<unknown>,
  ): Promise<IdempotentAnswer> {
    const { apiKeyId, key, fingerprints, status } = request;
    const name = `${apiKeyId} ${key}`;
    if (inProgress.has(name)) {
      throw new AppError(
        "idempotency_in_progress",
        "A request with this idempotency key is still running: wait, then send it again with the same key",
        { retryAfter: 1 },
      );
    }
    const found = find(request);
    if (found && !found.same) {
      throw new AppError(
        "idempotency_key_reused",
        "This idempotency key was used for a different request: use a new one for each",
      );
    }
    if (found) return found.answered;
    inProgress.add(name);
    try {
      const answer = await work((tx, response) => {
        const fingerprint = fingerprints.join(" ");
        statements(tx).put.run({ apiKeyId, key, fingerprint, status, response, createdAt: runtime.now() });
      });
      return { status, answer, replayed: false };
    } finally {
      inProgress.delete(name);
    }
  }

  /** Deletes expired keys. */
  const job: Job = {
    name: "idempotency",
    deletes: true,
    async runDue(now, wasAhead) {
      if (now < nextSweep && !wasAhead) return nextSweep;
      const before = earliest(now);
      const oldest = statements(store.db).oldest.get();
      let removed = 0;
      if (oldest !== undefined && oldest.createdAt < before) {
        removed = await store.enqueue((tx) => {
          const expired = statements(tx).expired.all({ before });
          for (const row of expired) statements(tx).remove.run(row);
          return expired.length;
        });
      }
      nextSweep = now + (removed === PORTION ? PAUSE_MS : HOUR_MS);
      return nextSweep;
    },
  };

  return { earlier, once, job };
}
