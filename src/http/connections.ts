/**
 * Limits HTTP and HTTPS connections: their number over all listeners, in all and by source, and the time that each may
 * make the server wait.
 *
 * A connection counts against its source address. A connection from a trusted proxy does not, since a proxy has many
 * clients: each of its requests counts against the address that it was forwarded for, until the response. Loopback
 * addresses have no limit by source; the total limit applies to all.
 *
 * Invariants: the number of connections never exceeds the limit. Every wait for a client, for a request, for its body
 * or for it to take a response, has an end, which comes sooner while the server is full.
 */
import { createSourceReader, isAwaitingBody } from "../api/request.ts";
import type { Runtime } from "../base/runtime.ts";
import { canonicalAddress, networkList, sourceOfAddress } from "../net/ip.ts";

export type RefusedBy = "total" | "source";

export type Connections = ReturnType<typeof createConnections>;

/** A counted connection; its methods report events on it. */
export interface Admission {
  /** The client sent bytes. */
  received(): void;
  /** The server sent bytes of a response. */
  sent(): void;
  /** The client stopped taking the bytes of a response, or takes them again. */
  stalled(isStalled: boolean): void;
  /** The server sends no more. */
  closing(): void;
  /** The connection is closed. */
  closed(): void;
  /** A request begins. Call the result after the response; undefined when the source has too many requests. */
  begin(request: Request): (() => void) | undefined;
}

/** A quarter of all connections, and at most what many people behind one address need. */
const mostOfSource = (most: number): number => Math.min(256, Math.ceil(most / 4));

/** How long a client may make the server wait, ms: normally, and while the server is full. */
const PATIENCE = {
  /** From connecting, TLS handshake included, or from the first byte of the next request, to the end of its head. */
  head: [20_000, 5_000],
  /** Between requests; normally Bun.serve ends idle connections (listener.ts). */
  idle: [Number.POSITIVE_INFINITY, 5_000],
  /** Between two bytes of a body. */
  body: [30_000, 5_000],
  /** For a whole body: 26 MB at 30 kB a second. */
  wholeBody: [15 * 60_000, 15 * 60_000],
  /** To take what was written, half a megabyte at most. */
  stalled: [60_000, 10_000],
  /** To take the last bytes. */
  closing: [30_000, 5_000],
} as const;
type Awaited = Exclude<keyof typeof PATIENCE, "body" | "wholeBody" | "stalled">;

interface Connection {
  /** The source that it counts against; undefined for proxies and loopback. */
  readonly source: string | undefined;
  readonly cut: () => void;
  /** What the server waits for, unless a request is under way. */
  awaits: Awaited;
  /** Since when, epoch ms. */
  since: number;
  /** When the client last sent bytes, epoch ms. */
  heardAt: number;
  stalledSince: number | undefined;
  /** Requests under way; several if the client pipelines. */
  underWay: number;
  /** The request that began last. */
  request: Request | undefined;
}

const isLoopback = networkList(["127.0.0.0/8", "0:0:0:0:0:0:0:1"]);
const LOOPBACK_SOURCES = new Set(["0:0:0:0::/64", "unknown"]);

export function createConnections({
  most,
  trustedProxies,
  runtime,
  refused,
}: {
  /** Limit of connections in all. */
  most: number;
  trustedProxies: readonly string[];
  runtime: Pick<Runtime, "now">;
  /** Called for each refused connection or request. */
  refused?: (by: RefusedBy) => void;
}) {
  const isProxy = networkList(trustedProxies);
  const sourceOf = createSourceReader(trustedProxies);
  const open = new Set<Connection>();
  /** Connections between two requests, the longest idle first. */
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
    const { awaits, since, heardAt, stalledSince, underWay, request } = connection;
    // The absolute difference, so that a clock set back does not prolong the wait.
    const over = (from: number, what: keyof typeof PATIENCE) => Math.abs(now - from) >= PATIENCE[what][isFull ? 1 : 0];
    if (stalledSince !== undefined) return over(stalledSince, "stalled");
    if (underWay === 0) return over(since, awaits);
    return request !== undefined && isAwaitingBody(request) && (over(heardAt, "body") || over(since, "wholeBody"));
  }

  /** Ends an idle connection, to make room for one of `source`. Returns the limit that leaves no room. */
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

  /** Counts a forwarded request against its source. Call the result when it ends; undefined when there are too many. */
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
    /** Functions that end the counting of the requests under way. */
    const ends = new Set<() => void>();
    return {
      received() {
        connection.heardAt = runtime.now();
        if (connection.underWay === 0 && connection.awaits === "idle") awaitFrom(connection, "head");
      },
      sent() {
        if (connection.underWay === 0 && connection.awaits !== "closing" && open.has(connection)) {
          awaitFrom(connection, "idle");
        }
      },
      stalled(isStalled) {
        connection.stalledSince = isStalled ? runtime.now() : undefined;
        if (isStalled) idle.delete(connection);
      },
      closing: () => awaitFrom(connection, "closing"),
      closed() {
        drop(connection);
        for (const end of ends) end();
        ends.clear();
      },
      begin(request) {
        const source = throughProxy ? sourceOf(peer, request.headers.get("x-forwarded-for")) : undefined;
        // Without a forwarded address, the request is the proxy's own.
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
    /**
     * Counts a connection from `address`, if need be after ending an idle one. `cut` ends the connection at once.
     * Undefined when the server is full: the caller closes the connection.
     */
    admit(address: string | undefined, cut: () => void): Admission | undefined {
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
        source,
        cut,
        awaits: "head",
        since: now,
        heardAt: now,
        stalledSince: undefined,
        underWay: 0,
        request: undefined,
      };
      open.add(connection);
      if (source !== undefined) {
        const theirs = bySource.get(source) ?? new Set();
        bySource.set(source, theirs.add(connection));
      }
      return admissionOf(connection, peer);
    },
    open: () => open.size,
    /** Ends connections that made the server wait too long. Called about once a second. */
    sweep(): void {
      const now = runtime.now();
      const isFull = open.size >= most;
      for (const connection of [...open]) if (isOverdue(connection, now, isFull)) end(connection);
    },
  };
}
