/**
 * Connections that no request is under way on, kept for the next to the same place.
 *
 * Invariants: one is kept for less time than that after which common servers close it, and none keeps the process alive.
 */
import type { Runtime } from "../base/runtime.ts";
import { type Connection, drop } from "./connection.ts";

export interface IdleConnections<Exchange> {
  /** One for this key, which is kept no longer; the one kept last, since it is the least likely to be closed. */
  take(key: string): Connection<Exchange> | undefined;
  keep(connection: Connection<Exchange>): void;
  /** It has ended. */
  forget(connection: Connection<Exchange>): void;
  /** Ends all of them. */
  close(): void;
}

/** Connections are kept for one round to two: common servers close them after 5 seconds. */
const ROUND_MS = 2_000;

/** `mostIdle`: to whatever place. */
export function createIdleConnections<Exchange>(
  runtime: Pick<Runtime, "setTimer">,
  mostIdle: number,
): IdleConnections<Exchange> {
  /** The one kept last at the end. */
  const idle: Connection<Exchange>[] = [];
  let round = 0;
  let cancelRound: (() => void) | undefined;

  function dropFirst(): void {
    const first = idle.shift();
    if (first) drop(first);
  }

  function endRound(): void {
    round++;
    while (idle[0] && idle[0].idleSince < round - 1) dropFirst();
    cancelRound = idle.length > 0 ? runtime.setTimer(endRound, ROUND_MS) : undefined;
  }

  return {
    take(key) {
      const i = idle.findLastIndex((connection) => connection.key === key);
      return i < 0 ? undefined : idle.splice(i, 1)[0];
    },
    keep(connection) {
      connection.idleSince = round;
      idle.push(connection);
      if (idle.length > mostIdle) dropFirst();
      cancelRound ??= runtime.setTimer(endRound, ROUND_MS);
    },
    forget(connection) {
      const i = idle.indexOf(connection);
      if (i >= 0) idle.splice(i, 1);
    },
    close() {
      cancelRound?.();
      while (idle.length > 0) dropFirst();
    },
  };
}
