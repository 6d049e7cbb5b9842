/**
 * How many HTTP and HTTPS connections there are, of all listeners together, and how long each may keep us waiting.
 *
 * A connection counts against the address that it comes from. One from a trusted proxy does not: the proxy carries many
 * clients, so that each of its requests counts against the address that it was forwarded for, while it is under way.
 * Loopback addresses have no cap of their own; the cap of all holds for everybody.
 *
 * Invariants: there are never more connections than the cap. A client that is waited for, to send a request or its body
 * or to take an answer, is not waited for without end, and for less time while there is no room for others.
 */
import { isAwaitingBody } from "../api/body.ts";
import { createSourceReader } from "../api/source.ts";
import type { Runtime } from "../base/runtime.ts";
import { canonicalAddress, networkList, sourceOfAddress } from "../net/ip.ts";

export interface ConnectionsParts {
  /** Connections in all. */
  most: number;
  trustedProxies: readonly string[];
  runtime: Pick<Runtime, "now">;
  /** A connection or a request was refused. */
  refused?: (by: RefusedBy) => void;
}

export type RefusedBy = "total" | "source";

export interface Connections {
  /**
   * Counts a connection from `address`, which `cut` ends at once, and makes room for it by ending one that idles.
   * Undefined: there is no room, and it is to be closed.
   */
  admit(address: string | undefined, cut: () => void): Admission | undefined;
  open(): number;
  /** Ends those that have kept us waiting for too long; to be called about once a second. */
  sweep(): void;
}

/** A connection that is counted, as it is told what happens on it. */
export interface Admission {
  /** Bytes of the client arrived. */
  heard(): void;
  /** Bytes of an answer went out. */
  said(): void;
  /** What was said is held up by the client, or no longer. */
  heldUp(isHeldUp: boolean): void;
  /** Nothing more is said, or answered. */
  ending(): void;
  /** It is closed. */
  closed(): void;
  /** A request begins. What it returns is told once it is answered; undefined: it is one too many of its source. */
  begin(request: Request): (() => void) | undefined;
}

/** A quarter of all connections, and no more than many people behind one address need. */
const mostOfSource = (most: number): number => Math.min(256, Math.ceil(most / 4));

/** How long a client may keep us waiting, ms, while there is room for others and while there is none. */
const PATIENCE = {
  /** From connecting to the end of the request's head, a TLS handshake included; and from the first byte of another. */
  head: [20_000, 5_000],
  /** Between requests; while there is room, Bun.serve ends them (listener.ts). */
  idle: [Number.POSITIVE_INFINITY, 5_000],
  /** Between two bytes of a body. */
  body: [30_000, 5_000],
  /** For a body whole: 26 MB take as long at 30 kB a second. */
  wholeBody: [15 * 60_000, 15 * 60_000],
  /** To take what was written: half a megabyte at most. */
  heldUp: [60_000, 10_000],
  /** To take the last of it. */
  ending: [30_000, 5_000],
} as const;
type Awaited = Exclude<keyof typeof PATIENCE, "body" | "wholeBody" | "heldUp">;

interface Connection {
  /** Whom it counts against; undefined for proxies and loopback. */
  readonly source: string | undefined;
  readonly cut: () => void;
  /** What is waited for, unless a request is under way. */
  awaits: Awaited;
  /** Since when (epoch ms). */
  since: number;
  /** The last time the client sent anything. */
  heardAt: number;
  heldUpSince: number | undefined;
  /** The requests under way, which are several if the client does not wait for answers. */
  underWay: number;
  /** The last that began. */
  request: Request | undefined;
}

const isLoopback = networkList(["127.0.0.0/8", "0:0:0:0:0:0:0:1"]);
const LOOPBACK_SOURCES = new Set(["0:0:0:0::/64", "unknown"]);

export function createConnections({ most, trustedProxies, runtime, refused }: ConnectionsParts): Connections {
  const isProxy = networkList(trustedProxies);
  const sourceOf = createSourceReader(trustedProxies);
  const open = new Set<Connection>();
  /** Those between two requests, the one that has been so for longest first. */
  const idle = new Set<Connection>();
  const bySource = new Map<string, Set<Connection>>();
  /** Requests under way that proxies forwarded, by source. */
  const forwarded = new Map<string, number>();
  const perSource = mostOfSource(most);

  function drop(connection: Connection): void {
    if (!open.delete(connection)) return;
    idle.delete(connection);
    const { source } = connection;
    if (source === undefined) return;
    const theirs = bySource.get(source);
    theirs?.delete(connection);
    if (theirs?.size === 0) bySource.delete(source);
  }

  function end(connection: Connection): void {
    drop(connection);
    connection.cut();
  }

  function awaitFrom(connection: Connection, awaited: Awaited): void {
    connection.awaits = awaited;
    connection.since = runtime.now();
    idle.delete(connection);
    if (awaited === "idle") idle.add(connection);
  }

  function isOverdue(connection: Connection, now: number, isFull: boolean): boolean {
    const { awaits, since, heardAt, heldUpSince, underWay, request } = connection;
    // Either way: of a clock that was ahead it would be waited for as long as that was.
    const over = (from: number, what: keyof typeof PATIENCE) => Math.abs(now - from) >= PATIENCE[what][isFull ? 1 : 0];
    if (heldUpSince !== undefined) return over(heldUpSince, "heldUp");
    if (underWay === 0) return over(since, awaits);
    return request !== undefined && isAwaitingBody(request) && (over(heardAt, "body") || over(since, "wholeBody"));
  }

  /** Ends a connection that idles, to make room for one of `source`. */
  function makeRoom(source: string | undefined): RefusedBy | undefined {
    const theirs = source === undefined ? undefined : bySource.get(source);
    if (theirs && theirs.size >= perSource) {
      const one = [...theirs].find((connection) => idle.has(connection));
      if (!one) return "source";
      end(one);
    }
    if (open.size < most) return undefined;
    const [longest] = idle;
    if (!longest) return "total";
    end(longest);
    return undefined;
  }

  /** Counts a request against whom a proxy forwarded it for. What it returns ends that; undefined when there are too many. */
  function beginForwarded(source: string): (() => void) | undefined {
    if (LOOPBACK_SOURCES.has(source) || isLoopback(source)) return () => {};
    const before = forwarded.get(source) ?? 0;
    if (before >= perSource) return undefined;
    forwarded.set(source, before + 1);
    return () => {
      const left = (forwarded.get(source) ?? 1) - 1;
      if (left > 0) forwarded.set(source, left);
      else forwarded.delete(source);
    };
  }

  function admissionOf(connection: Connection, peer: string | undefined): Admission {
    const throughProxy = peer !== undefined && isProxy(peer);
    /** What ends the counting of requests under way. */
    const ends = new Set<() => void>();
    return {
      heard() {
        connection.heardAt = runtime.now();
        if (connection.underWay === 0 && connection.awaits === "idle") awaitFrom(connection, "head");
      },
      said() {
        if (connection.underWay === 0 && connection.awaits !== "ending" && open.has(connection)) {
          awaitFrom(connection, "idle");
        }
      },
      heldUp(isHeldUp) {
        connection.heldUpSince = isHeldUp ? runtime.now() : undefined;
        if (isHeldUp) idle.delete(connection);
      },
      ending: () => awaitFrom(connection, "ending"),
      closed() {
        drop(connection);
        for (const end of ends) end();
        ends.clear();
      },
      begin(request) {
        const source = throughProxy ? sourceOf(peer, request.headers.get("x-forwarded-for")) : undefined;
        // One that the proxy forwarded for nobody is its own.
        const isForwarded = source !== undefined && source !== sourceOfAddress(peer);
        const end = isForwarded ? beginForwarded(source) : () => {};
        if (!end) {
          refused?.("source");
          return undefined;
        }
        if (isForwarded) ends.add(end);
        idle.delete(connection);
        connection.underWay++;
        connection.request = request;
        connection.since = runtime.now();
        return () => {
          if (ends.delete(end)) end();
          if (--connection.underWay > 0 || !open.has(connection)) return;
          connection.request = undefined;
          awaitFrom(connection, "idle");
        };
      },
    };
  }

  return {
    admit(address, cut) {
      const peer = canonicalAddress(address ?? "");
      const isCounted = peer !== undefined && !isLoopback(peer) && !isProxy(peer);
      const source = isCounted ? sourceOfAddress(peer) : undefined;
      const by = makeRoom(source);
      if (by) {
        refused?.(by);
        return undefined;
      }
      const now = runtime.now();
      const connection: Connection = {
        ...{ source, cut, awaits: "head", since: now, heardAt: now },
        ...{ heldUpSince: undefined, underWay: 0, request: undefined },
      };
      open.add(connection);
      if (source !== undefined) {
        const theirs = bySource.get(source) ?? new Set();
        bySource.set(source, theirs.add(connection));
      }
      return admissionOf(connection, peer);
    },
    open: () => open.size,
    sweep() {
      const now = runtime.now();
      const isFull = open.size >= most;
      for (const connection of [...open]) if (isOverdue(connection, now, isFull)) end(connection);
    },
  };
}
