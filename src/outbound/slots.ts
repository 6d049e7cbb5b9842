/**
 * The slots of the relay: how many sessions may work at once. The line of its destination (destination-health.ts) says which
 * slots a session may take:
 *
 *   line   slots          what they are for
 *   open   shared, kept   a destination that replies in time always finds one of the kept slots
 *   new    shared         a destination that may hang can take no more than those
 *   slow   slow           a destination that hangs has all the time that RFC 5321 §4.5.3.2 gives it, and costs others nothing
 *   -      spare          mail to this server itself, while all shared slots are taken
 *
 * A session that has waited for its server for a while no longer counts, so that others get its slot. There is a bound to
 * that, too: beyond MOST_RELAY_WAITING such sessions count after all.
 */
import { MOST_RELAY_WAITING, RELAY_SLOTS } from "../base/descriptors.ts";
import type { DeliveryResult } from "../smtp/delivery-result.ts";
import type { QueueLine } from "../store/schema.ts";
import type { Claim } from "./claims.ts";
import type { Connection } from "./transport.ts";

export type Slot = keyof typeof RELAY_SLOTS;

const SLOTS_OF: Record<QueueLine, readonly Slot[]> = { open: ["shared", "kept"], new: ["shared"], slow: ["slow"] };

/** Work for one destination, a domain or the smarthost: on one connection, message after message. */
export interface Session {
  readonly destination: string;
  slot: Slot;
  connection: Connection | undefined;
  /** Ends the connection, or the attempt to get one; undefined while there is neither. */
  ending: AbortController | undefined;
  /** How long it waits for its server in the step under way; `over`: it has its reply, but no slot to go on in. */
  waits: "not" | "a while" | "long" | "over";
  /** Its destination belongs into another line now. */
  moves: boolean;
  /** It has shown that it can deliver. */
  proven: boolean;
  /** Claims since it was last idle. */
  served: number;
  /** No connection can be had: the result for everything that was due then (epoch ms). */
  failure: { result: DeliveryResult; at: number } | undefined;
  /** Set while it is idle. */
  cancelIdle: (() => void) | undefined;
}

/** A claim, for a session that idles or a new one. */
export interface Assignment {
  claim: Claim;
  destination: string;
  slot: Slot;
}

export const newSession = (destination: string): Session => ({
  destination,
  slot: "shared",
  connection: undefined,
  ending: undefined,
  waits: "not",
  moves: false,
  proven: false,
  served: 0,
  failure: undefined,
  cancelIdle: undefined,
});

export const isIdle = (session: Session): boolean => session.cancelIdle !== undefined;
const isCut = ({ ending }: Session): boolean => ending?.signal.aborted === true;

/** It waits, or has waited, for its server, and others may have its slot meanwhile. */
export const isWaiting = ({ waits, slot }: Session): boolean =>
  waits !== "not" && (slot === "shared" || slot === "kept");

/** Whether it may be ended to make room: it has waited for long, and cannot have delivered anything. */
export const mayBeCut = (session: Session): boolean =>
  session.waits === "long" && session.slot !== "slow" && !isCut(session) && !session.connection?.isTransmitting();

/** The number of free slots of each kind, besides those of `assignments`. */
export function freeSlots(
  sessions: Iterable<Session>,
  assignments: readonly Pick<Assignment, "slot">[],
): Record<Slot, number> {
  const free = { ...RELAY_SLOTS };
  const atWork = [...sessions].filter((session) => !isIdle(session));
  for (const { slot } of [...atWork.filter((session) => !isWaiting(session)), ...assignments]) free[slot]--;
  const waiting = atWork.filter((session) => isWaiting(session) && !isCut(session)).length;
  // Those beyond the bound take slots after all: else a known destination would get one more whenever one waits.
  free.shared -= Math.max(0, waiting - MOST_RELAY_WAITING);
  free.kept += Math.min(0, free.shared);
  return free;
}

/** A free slot for a destination of that line. */
export const slotFor = (free: Record<Slot, number>, line: QueueLine): Slot | undefined =>
  SLOTS_OF[line].find((slot) => free[slot] > 0);
