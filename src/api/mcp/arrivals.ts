/**
 * list_messages as a way to follow a mailbox: what arrived since an earlier answer, waiting for it when asked to.
 *
 * Invariant: from answer to answer, each with the `nextAfter` of the one before, every message that arrives and matches
 * is given exactly once, whatever its Date says.
 */
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { arrivalsSince, latestEvent } from "../../events/arrivals.ts";
import type { Mailbox } from "../../mailbox/mailbox.ts";
import type { MessageFilters, MessageSummaryView } from "../../mailbox/views.ts";
import { DEFAULT_LIMIT } from "../../operations/schemas.ts";
import type { Store } from "../../store/store.ts";
import type { Arguments, Call } from "./tools.ts";
import type { Waiting } from "./waiting.ts";

export interface Arrived {
  answer: { messages: MessageSummaryView[]; count: number };
  /** Undefined for what `offset` goes on with: arrivals are followed from the answer that it goes on from. */
  nextAfter?: string;
  /** For the model: what `nextAfter` is for. */
  note: string;
  /** Of arrivals: the same with at most so many messages, so that `nextAfter` follows those. */
  again?(limit: number): Arrived;
}

/** Pages of arrivals that one look goes through: what a filter leaves out costs as much as what it lets through. */
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

export function createArrivals(parts: { store: Pick<Store, "db">; mailbox: Mailbox; waiting: Waiting }) {
  const { store, mailbox, waiting } = parts;

  return {
    /** Where the stream of arrivals stands: to be asked before the list that `read` goes on from. */
    position: () => latestEvent(store.db),

    /**
     * `answer` itself, or in its place what arrived. `from`: the position when `answer` was made.
     * @throws AppError bad_request (after), rate_limited (too many wait), unauthorized (the key died meanwhile)
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

      /** The next page with anything in it; empty when it has looked far enough for once. */
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
        // Whoever has waited may have lost their key or their role by now.
        const found = next(caller ?? call.readmit());
        caller = undefined;
        return found;
      };
      const key = call.caller.keyId ?? call.caller.userId;
      const messages =
        waitSeconds === 0
          ? next(call.caller)
          : await waiting.wait(look, { ms: waitSeconds * 1000, key, signal: call.signal() });
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
  };
}
