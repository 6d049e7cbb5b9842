/**
 * Follows the mail that arrives in a workspace: by the number of its event, since the sender chooses a message's date
 * and this server numbers the event when it commits it.
 *
 * Invariant: a client that passes each answer's `nextAfter` on gets every message that arrives and matches exactly once.
 */
import type { Caller } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { readTimeField } from "../../base/time.ts";
import { arrivalsSince, firstEventSince, latestEvent } from "../../events/outbox.ts";
import type { Core, Reader } from "../../store/core.ts";
import type { MessageFilters, MessageSummaryView } from "../state/views.ts";
import { listMessages } from "./messages.ts";

/** Most pages of arrivals that one look reads: a message that the filter leaves out costs as much as any other. */
const MOST_PAGES = 40;
const DAY_MS = 86_400_000;

/** The position after the latest arrival. */
export const latestArrival = ({ db }: Reader): string => encode(latestEvent(db));

const encode = (seq: number): string => Buffer.from(`1.${seq}`).toString("base64url");

function decode(after: string): number | undefined {
  const text = Buffer.from(after, "base64url");
  const seq = /^1\.(\d{1,15})$/.exec(text.toString("latin1"))?.[1];
  return seq === undefined || text.toString("base64url") !== after ? undefined : Number(seq);
}

/**
 * Reads `after`: a position, or a time. Events are kept as long as the webhooks' log,
 * so a time before that is refused. @throws AppError bad_request
 */
export function readArrivalPosition({ db, options, now }: Core, after: string): string {
  if (decode(after) !== undefined) return after;
  if (!/^\d{4}-/.test(after)) {
    throw new AppError("bad_request", "after is not valid: pass the nextAfter of an earlier answer, or a time");
  }
  const at = readTimeField("after", after);
  const days = options.get("retention.deliveryLogDays");
  if (at < now() - days * DAY_MS) {
    throw new AppError("bad_request", `after may be a time within the last ${days} days: search finds older mail`);
  }
  return encode(firstEventSince(db, at) - 1);
}

/**
 * The next page of arrivals after a position that has messages, and the position after it; `messages` is undefined at
 * the end, and empty after MOST_PAGES without any. @throws AppError not_found (mailbox)
 */
export function arrivalsAfter(
  core: Reader,
  caller: Caller,
  after: string,
  filters: Omit<MessageFilters, "among">,
): { messages: MessageSummaryView[] | undefined; next: string } {
  let position = decode(after) ?? 0;
  for (let page = 0; page < MOST_PAGES; page++) {
    const arrivals = arrivalsSince(core.db, caller.workspaceId, position, filters.limit);
    const last = arrivals.at(-1);
    if (!last) return { messages: undefined, next: encode(position) };
    position = last.seq;
    const messages = listMessages(core, caller, { ...filters, among: arrivals.map(({ emailId }) => emailId) });
    if (messages.length > 0) return { messages, next: encode(position) };
  }
  return { messages: [], next: encode(position) };
}
