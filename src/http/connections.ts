/**
 * Limits HTTP and HTTPS connections: their number over all listeners, in all and by source, and the time that each may
 * make the server wait.
 *
 * A connection counts against its source address. A connection from a trusted proxy does not, since a proxy has many
 * clients: each of its requests counts against the address that it was forwarded for, until the response. 127.0.0.1 and
 * ::1, where a proxy of one's own may be, have no limit by source; the total limit applies to all. A quarter of all
 * connections is kept for proxies and for sources from which somebody signed in: the others are strangers.
 *
 * Invariants: the number of connections never exceeds the limit. Every wait for a client, for a request, for its body
 * or for it to take a response, has an end. While the server is full it comes sooner for whoever is not known, and the
 * slowest stranger makes room.
 */
import { createClientSourceReader, declaredBodyLength, isAwaitingBody } from "../api/request.ts";
import type { Runtime } from "../base/runtime.ts";
import { canonicalIpAddress, createNetworkMatcher, ipAddressSource, isOwnOrTrustedAddress } from "../net/ip.ts";

export type RefusedBy = "total" | "source";

export type Connections = ReturnType<typeof createHttpConnections>;

/** A counted connection; its methods report events on it. */
export interface Admission {
  /** The client sent so many bytes. */
  received(bytes: number): void;
  /** The server sent the last bytes of a response. */
  sent(): void;
  /** The client stopped taking the bytes of a response, or takes them again. */
  stalled(isStalled: boolean): void;
  /** The server sends no more. */
  closing(): void;
  /** The connection is closed. */
  closed(): void;
  /** A request begins. Call the result when the response begins; undefined when the source has too many requests. */
  begin(request: Request): (() => void) | undefined;
}

/** A quarter of all connections, and at most what many people behind one address need. */
const mostOfSource = (most: number): number => Math.min(256, Math.ceil(most / 4));

/** How long a client may make the server wait, ms: normally, and while the server is full. */
const PATIENCE = {
  /** Time from connecting, TLS handshake included, or from the first byte of the next request, to the end of its head. */
  head: [20_000, 5_000],
  /** Time to send a response. If the client does not take it, the connection stalls. */
  response: [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
  /** Time between requests; normally Bun.serve ends idle connections (listener.ts). */
  idle: [Number.POSITIVE_INFINITY, 5_000],
  /** Time between two bytes of a body. */
  body: [30_000, 5_000],
  /** For a whole body: 26 MB at 30 kB a second. */
  wholeBody: [15 * 60_000, 15 * 60_000],
  /** Time for the client to take what was written, half a megabyte at most. */
  stalled: [60_000, 10_000],
  /** Time for the client to take the last bytes. */
  closing: [30_000, 5_000],
} as const;
type Awaited = Exclude<keyof typeof PATIENCE, "body" | "wholeBody" | "stalled">;

/** Bytes of a small body, and within how long it comes, ms. */
const SMALL_BODY = { bytes: 64_000, ms: 20_000 };
/** Bytes that must come of a larger one in each span, ms: 1 kB/s. */
const PACE = { bytes: 30_000, ms: 30_000 };
/** So many bytes of a body show that its client is not the slowest. */
const SIGN_OF_LIFE_BYTES = 16_384;

interface Connection {
  /** The source that it counts against; undefined for proxies and this host. */
  readonly source: string | undefined;
  /** Somebody signed in from there lately. */
  readonly isKnown: boolean;
  readonly cut: () => void;
  /** The step of the client that the server waits for, unless a request is under way. */
  awaits: Awaited;
  /** Start of that wait, epoch ms. */
  since: number;
  /** When the client last sent bytes, epoch ms. */
  heardAt: number;
  /** Bytes that the client sent since `paceAt`, epoch ms. */
  pace: number;
  paceAt: number;
  /** When the client last was not slow, epoch ms; and the bytes since then. */
  aliveAt: number;
  sinceAlive: number;
  stalledSince: number | undefined;
  /** Requests under way; several if the client pipelines. */
  underWay: number;
  /** The request that began last. */
  request: Request | undefined;
}

const UNCOUNTED_SOURCES = new Set(["127.0.0.1", "0:0:0:0::/64", "unknown"]);

/** Only a connection that counts against a source may be a stranger's. */
const isStranger = ({ source, isKnown }: Connection): boolean => source !== undefined && !isKnown;

const awaitsBody = ({ request }: Connection): boolean => request !== undefined && isAwaitingBody(request);

export function createHttpConnections({
  most,
  trustedProxies,
  runtime,
  isKnown = () => false,
  refused,
}: {
  /** Limit of connections in all. */
  most: number;
  trustedProxies: readonly string[];
  runtime: Pick<Runtime, "now">;
  /** Tells whether somebody signed in from a source lately. */
  isKnown?: (source: string) => boolean;
  /** Called for each refused connection or request. */
  refused?: (by: RefusedBy) => void;
}) {
  const isProxy = createNetworkMatcher(trustedProxies);
  const readClientSource = createClientSourceReader(trustedProxies);
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

  function noteLife(connection: Connection): void {
    connection.aliveAt = runtime.now();
    connection.sinceAlive = 0;
  }

  function awaitFrom(connection: Connection, awaited: Awaited): void {
    connection.awaits = awaited;
    connection.since = runtime.now();
    connection.pace = 0;
    noteLife(connection);
    idle.delete(connection);
    if (awaited === "idle") idle.add(connection);
  }

  function isOverdue(connection: Connection, now: number, isFull: boolean): boolean {
    const { awaits, since, heardAt, stalledSince, underWay } = connection;
    const hurries = isFull && !connection.isKnown;
    // The absolute difference, so that a clock set back does not prolong the wait.
    const over = (from: number, what: keyof typeof PATIENCE) => Math.abs(now - from) >= PATIENCE[what][hurries ? 1 : 0];
    if (stalledSince !== undefined) return over(stalledSince, "stalled");
    if (underWay === 0) return over(since, awaits);
    return awaitsBody(connection) && (over(heardAt, "body") || over(since, "wholeBody") || isTooSlow(connection, now));
  }

  /** True for a small body that is late, or a larger one of which too little came in the last span. */
  function isTooSlow({ request, since, pace, paceAt }: Connection, now: number): boolean {
    const length = request && declaredBodyLength(request);
    if (length !== undefined && length <= SMALL_BODY.bytes) return Math.abs(now - since) >= SMALL_BODY.ms;
    return Math.abs(now - paceAt) >= PACE.ms && pace < PACE.bytes;
  }

  /** Begins a span in which a body is paced: after one, or while the server reads no body. */
  function restartPace(connection: Connection, now: number): void {
    if (awaitsBody(connection) && Math.abs(now - connection.paceAt) < PACE.ms) return;
    connection.pace = 0;
    connection.paceAt = now;
  }

  /** The connection, of those that `may` end and for which the server waits, that was not slow longest ago. */
  function slowest(may: (connection: Connection) => boolean): Connection | undefined {
    const waits = (one: Connection) => one.underWay === 0 || one.stalledSince !== undefined || awaitsBody(one);
    const those = [...open].filter((one) => may(one) && waits(one));
    return those.toSorted((a, b) => a.aliveAt - b.aliveAt)[0];
  }

  /** Ends a connection to make room for one of `source`. Returns the limit that leaves no room. */
  function makeRoom(source: string | undefined, known: boolean): RefusedBy | undefined {
    const theirs = source === undefined ? undefined : bySource.get(source);
    if (theirs && theirs.size >= perSource) {
      const one = [...theirs].find((connection) => idle.has(connection));
      if (!one) return "source";
      end(one);
    }
    const isFull = open.size >= most;
    const strangers = (): number => [...open].filter(isStranger).length;
    const isTaken = source !== undefined && !known && strangers() >= most - Math.floor(most / 4);
    if (!isFull && !isTaken) return undefined;
    const [longest] = isFull ? idle : [...idle].filter(isStranger);
    const victim = longest ?? slowest(isStranger) ?? (isTaken ? undefined : slowest((one) => one.source !== undefined));
    if (!victim) return "total";
    end(victim);
    return undefined;
  }

  /** Counts a forwarded request against its source. Call the result when it ends; undefined when there are too many. */
  function beginForwarded(source: string): (() => void) | undefined {
    if (UNCOUNTED_SOURCES.has(source)) return () => {};
    const before = forwarded.get(source) ?? 0;
    if (before >= perSource) return undefined;
    forwarded.set(source, before + 1);
    return () => {
      const left = (forwarded.get(source) ?? 1) - 1;
      if (left > 0) forwarded.set(source, left);
      else forwarded.delete(source);
    };
  }

  function createConnectionAdmission(connection: Connection, peer: string | undefined): Admission {
    const throughProxy = peer !== undefined && isProxy(peer);
    /** Functions that end the counting of the requests under way. */
    const ends = new Set<() => void>();
    return {
      received(bytes) {
        connection.heardAt = runtime.now();
        connection.pace += bytes;
        connection.sinceAlive += bytes;
        if (connection.underWay > 0 && connection.sinceAlive >= SIGN_OF_LIFE_BYTES) noteLife(connection);
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
        const source = throughProxy ? readClientSource(peer, request.headers.get("x-forwarded-for")) : undefined;
        // Without a forwarded address, the request is the proxy's own.
        const isForwarded = source !== undefined && source !== ipAddressSource(peer);
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
        connection.paceAt = runtime.now();
        noteLife(connection);
        return () => {
          if (ends.delete(end)) end();
          if (--connection.underWay > 0 || !open.has(connection)) return;
          connection.request = undefined;
          awaitFrom(connection, "response");
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
      const peer = canonicalIpAddress(address ?? "");
      const isCounted = peer !== undefined && !isOwnOrTrustedAddress(peer, false) && !isProxy(peer);
      const source = isCounted ? ipAddressSource(peer) : undefined;
      const known = source !== undefined && isKnown(source);
      const by = makeRoom(source, known);
      if (by) {
        refused?.(by);
        return undefined;
      }
      const now = runtime.now();
      const connection: Connection = {
        source,
        isKnown: known,
        cut,
        awaits: "head",
        since: now,
        heardAt: now,
        pace: 0,
        paceAt: now,
        aliveAt: now,
        sinceAlive: 0,
        stalledSince: undefined,
        underWay: 0,
        request: undefined,
      };
      open.add(connection);
      if (source !== undefined) {
        const theirs = bySource.get(source) ?? new Set();
        bySource.set(source, theirs.add(connection));
      }
      return createConnectionAdmission(connection, peer);
    },
    open: () => open.size,
    /** Ends connections that made the server wait too long. Called about once a second. */
    sweep(): void {
      const now = runtime.now();
      const isFull = open.size >= most;
      for (const connection of [...open]) {
        if (isOverdue(connection, now, isFull)) end(connection);
        else restartPace(connection, now);
      }
    },
  };
}
