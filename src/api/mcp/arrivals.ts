/**
 * Lets list_messages follow a mailbox: it gives the messages that arrived since an earlier result, and waits for them
 * when asked to.
 *
 * Invariant: when a client passes each result's `nextAfter` to the next call, it gets every message that arrives and
 * matches exactly once, whatever the message's Date says.
 */
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import type { Runtime } from "../../base/runtime.ts";
import { arrivalsSince, latestEvent } from "../../events/outbox.ts";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import type { MessageFilters, MessageSummaryView } from "../../mailbox/views.ts";
import { DEFAULT_LIMIT } from "../../operations/schemas.ts";
import { LONGEST_WAIT_SECONDS } from "../../operations/tool.ts";
import type { Store } from "../../store/store.ts";
import type { Arguments, Call } from "./tools.ts";

export interface Arrived {
  answer: { messages: MessageSummaryView[]; count: number };
  /** Undefined for a page at an `offset`: the client follows arrivals from the first page. */
  nextAfter?: string;
  /** Tells the model what `nextAfter` is for. */
  note: string;
  /** Reads the same arrivals again, at most `limit` of them, with the `nextAfter` that follows these. */
  again?(limit: number): Arrived;
}

/** Most pages of arrivals that one look reads: a message that the filter leaves out costs as much as any other. */
const MOST_PAGES = 40;

const encode = (seq: number): string => Buffer.from(`1.${seq}`).toString("base64url");

function decode(after: string): number {
  const text = Buffer.from(after, "base64url");
  const seq = /^1\.(\d{1,15})$/.exec(text.toString("latin1"))?.[1];
  if (seq === undefined || text.toString("base64url") !== after) {
    throw new AppError("bad_request", "after is not valid: pass the nextAfter of an earlier result as it is");
  }
  return Number(seq);
}

export type Arrivals = ReturnType<typeof createArrivals>;

/** `mostConnections`: limit of HTTP connections. */
export function createArrivals(parts: {
  store: Pick<Store, "db" | "onCommit">;
  mailbox: Mailbox;
  runtime: Pick<Runtime, "setTimer">;
  mostConnections: number;
}) {
  const { store, mailbox } = parts;
  const waiting = createWaiting({ ...parts, latest: () => latestEvent(store.db) });

  return {
    /**
     * Returns the position after the latest arrival. The caller asks for it before it lists what `read` continues from.
     */
    position: () => latestEvent(store.db),

    /**
     * Returns `answer` itself; with `after` or `waitSeconds`, the messages that arrived instead. `from`: the position
     * before `answer` was made.
     * @throws AppError bad_request (`after`), rate_limited (too many calls wait), unauthorized (the key was revoked
     * meanwhile)
     */
    async read(answer: Arrived["answer"], { query, shaping }: Arguments, from: number, call: Call): Promise<Arrived> {
      const { after, waitSeconds = 0, offset = 0 } = shaping;
      if (after === undefined && waitSeconds === 0) {
        if (offset > 0) return { answer, note: "" };
        const nextAfter = encode(from);
        return { answer, nextAfter, note: `To wait for newer mail: after: "${nextAfter}", waitSeconds: 50.` };
      }
      const filters = query as Omit<MessageFilters, "limit"> & { limit?: number };
      if (offset > 0) throw new AppError("bad_request", "offset does not go with after or waitSeconds: pass nextAfter");
      const start = after === undefined ? from : decode(after);
      let position = start;

      /** Returns the next page that has messages; an empty one after MOST_PAGES without; undefined at the end. */
      function next(caller: Caller, limit = filters.limit ?? DEFAULT_LIMIT): MessageSummaryView[] | undefined {
        for (let page = 0; page < MOST_PAGES; page++) {
          const arrivals = arrivalsSince(store.db, caller.workspaceId, position, limit);
          const last = arrivals.at(-1);
          if (!last) return undefined;
          position = last.seq;
          const among = arrivals.map(({ emailId }) => emailId);
          const messages = mailbox.listMessages(caller, { ...filters, among, limit });
          if (messages.length > 0) return messages;
        }
        return [];
      }

      let caller: Caller | undefined = call.caller;
      const look = () => {
        // After the first look, the caller has waited, and may have lost the key or the role by now.
        const found = next(caller ?? call.readmit());
        caller = undefined;
        return found;
      };
      const key = call.caller.keyId ?? call.caller.userId;
      const messages =
        waitSeconds === 0
          ? next(call.caller)
          : await waiting.wait(look, { ms: waitSeconds * 1000, key, signal: call.request.signal });
      const arrivedNow = (found: MessageSummaryView[] | undefined): Arrived => {
        const nextAfter = encode(position);
        return {
          answer: { messages: found ?? [], count: found?.length ?? 0 },
          nextAfter,
          note: `${found === undefined ? "No new mail so far. " : ""}For mail after this: after: "${nextAfter}".`,
          again(limit) {
            position = start;
            return arrivedNow(next(call.readmit(), limit));
          },
        };
      };
      return arrivedNow(messages);
    },

    /** Ends the calls that wait. */
    stop: waiting.stop,
  };
}

const MOST_WAITING = 100;
const MOST_WAITING_BY_KEY = 4;
const LOOK_MS = 250;

/**
 * Lets calls wait until a commit brings what they look for. `latest` grows when there is something new to look for.
 * `mostConnections`: limit of HTTP connections, of which waiting calls take at most a quarter.
 *
 * Invariants: the number of waiting calls is bounded, in all and for each key. Whatever the rate of commits, each call
 * looks at most about four times a second. No call waits beyond `stop`.
 */
export function createWaiting(parts: {
  store: Pick<Store, "onCommit">;
  runtime: Pick<Runtime, "setTimer">;
  latest(): number;
  mostConnections: number;
}) {
  const { store, runtime, latest, mostConnections } = parts;
  const mostWaiting = Math.min(MOST_WAITING, Math.floor(mostConnections / 4));
  const waiting = new Map<{ look(): void; end(): void }, string>();
  let seen = latest();
  let rests = false;
  let stopped = false;

  function lookAll(): void {
    seen = latest();
    for (const { look } of waiting.keys()) look();
  }

  function committed(): void {
    if (waiting.size === 0 || rests || latest() === seen) return;
    rests = true;
    runtime.setTimer(() => {
      rests = false;
      committed();
    }, LOOK_MS);
    // Not during the commit, because a look reads the store and may fail.
    queueMicrotask(lookAll);
  }

  store.onCommit(committed);

  return {
    /**
     * Returns what `look` finds, at once or after a commit. Returns undefined when nothing came within `ms`, when the
     * client has gone (`signal`), or when the server stops. `key`: the calls of one key are limited.
     * @throws AppError rate_limited when too many calls wait, and errors of `look`
     */
    async wait<T>(
      look: () => T | undefined,
      { ms, key, signal }: { ms: number; key: string; signal: AbortSignal },
    ): Promise<T | undefined> {
      const found = look();
      if (found !== undefined || stopped || signal.aborted) return found;
      const byKey = [...waiting.values()].filter((other) => other === key).length;
      if (byKey >= MOST_WAITING_BY_KEY || waiting.size >= mostWaiting) {
        throw new AppError(
          "rate_limited",
          byKey >= MOST_WAITING_BY_KEY
            ? `${byKey} calls with this key wait for mail already: end one, or ask without waitSeconds`
            : "Too many calls wait for mail already: ask without waitSeconds",
          { retryAfter: LONGEST_WAIT_SECONDS },
        );
      }
      if (waiting.size === 0) seen = latest();
      const { promise, resolve, reject } = Promise.withResolvers<T | undefined>();
      const waiter = {
        look() {
          try {
            const value = look();
            if (value !== undefined) resolve(value);
          } catch (error) {
            reject(error);
          }
        },
        end: () => resolve(undefined),
      };
      waiting.set(waiter, key);
      const cancel = runtime.setTimer(waiter.end, ms);
      signal.addEventListener("abort", waiter.end);
      try {
        return await promise;
      } finally {
        waiting.delete(waiter);
        cancel();
        signal.removeEventListener("abort", waiter.end);
      }
    },
    /** Ends the calls that wait. */
    stop(): void {
      stopped = true;
      for (const { end } of waiting.keys()) end();
    },
  };
}
