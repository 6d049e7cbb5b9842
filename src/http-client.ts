/**
 * One HTTP request to a place that somebody else chose: a receiver of webhooks, where an image in a mail lies, a
 * certificate authority. It goes to the address that was checked, whatever DNS says a moment later.
 *
 * Bun's fetch is given the checked address in its URL, the name only in the Host field and for TLS, so that it has
 * nothing to look up; no proxy, cookie, redirect, other HTTP version or decompression comes between. Connections are
 * pooled by address, port and TLS name, and only here: one is used again only while DNS still gives its address.
 */
import { isIP } from "node:net";
import { type Destination, readDestination, resolveDestination } from "./destination.ts";
import type { Runtime } from "./runtime.ts";

export interface HttpRequest {
  method: "GET" | "HEAD" | "POST";
  url: string;
  /** Beside those of HTTP itself. */
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** Which attempt it is, from 1: each begins with another of the host's addresses. */
  attempt: number;
}

export interface HttpClient {
  /**
   * The answer as it begins, a redirect too; the body is still to be read, or to be cancelled. When an address does not
   * take the connection, the next is tried.
   * @throws RefusedDestination; otherwise what DNS or Bun's fetch throws, of the address tried last
   */
  send(request: HttpRequest, signal: AbortSignal): Promise<Response>;
  /** Sets a limit of `ms` to work that obeys its signal, which closing the client aborts too; `end` once it has ended. */
  limit(ms: number): Limit;
  /** Does `work` under such a limit. @throws when it is over, and whatever `work` throws */
  within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Ends work under way, and every connection. */
  close(): void;
}

export interface Limit {
  readonly signal: AbortSignal;
  end(): void;
}

export interface HttpClientParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "authorities">;
  /** Excepted networks, asked for at each request (contract: webhooks.allowNetworks); the same array while they are. */
  allow(): readonly string[];
}

/** Addresses tried for one request. */
const MOST_TRIES = 8;
/** Below the 5 seconds after which common servers close an idle connection. */
const IDLE_SECONDS = 4;
const MOST_IDLE = 256;
/** URLs kept as they were read, and addresses of one. */
const MOST_PLACES = 1_000;
const MOST_ROUTES = 16;

/** What a URL comes to while the excepted networks stay the same; what a name leads to is asked at every attempt. */
interface Place {
  destination: Destination;
  /** Checked, if the URL spells one out. */
  addresses: string[] | undefined;
  /** What is the same for every request to it: of fetch, and of the header. */
  readonly terms: BunFetchRequestInit;
  readonly fields: Readonly<Record<string, string>>;
  /** By address. */
  readonly routes: Map<string, Route>;
}

interface Route {
  /** With the address in it. */
  url: string;
  /** Whom a connection is kept to. */
  peer: string;
}

export function openHttpClient({ runtime, allow }: HttpClientParts): HttpClient {
  const session = new Bun.FetchSession({
    proxy: false,
    keepAlive: { idleTimeout: IDLE_SECONDS, maxIdleSockets: MOST_IDLE },
  });
  const trust = runtime.authorities && { ca: [...runtime.authorities] };
  /** Whom a connection may be kept to. */
  const answered = new Set<string>();
  const underWay = new Set<AbortController>();
  const places = new Map<string, Place>();
  let placesFor: readonly string[] = [];

  const newPlace = (destination: Destination): Place => {
    const { protocol, host, authority } = destination;
    const tls = protocol === "https:" && { tls: { ...trust, ...(isIP(host) === 0 && { serverName: host }) } };
    return {
      ...{ destination, addresses: undefined },
      terms: { redirect: "manual", decompress: false, protocol: "http1.1", ...tls },
      fields: { host: authority, "accept-encoding": "identity", "user-agent": "Mailroom" },
      routes: new Map(),
    };
  };

  function routeOf({ destination: { protocol, port, host, path }, routes }: Place, address: string): Route {
    let route = routes.get(address);
    if (!route) {
      const origin = `${protocol}//${address.includes(":") ? `[${address}]` : address}:${port}`;
      route = { url: origin + path, peer: `${origin} ${host}` };
      if (routes.size >= MOST_ROUTES) routes.clear();
      routes.set(address, route);
    }
    return route;
  }

  /** @throws RefusedDestination */
  function placeOf(url: string, excepted: readonly string[]): Place {
    if (excepted !== placesFor || places.size >= MOST_PLACES) places.clear();
    placesFor = excepted;
    let place = places.get(url);
    if (!place) {
      place = newPlace(readDestination(url, excepted));
      places.set(url, place);
    }
    return place;
  }

  async function lookUp(place: Place, signal: AbortSignal): Promise<string[]> {
    const { destination } = place;
    const asked = resolveDestination(destination, { dns: runtime.dns, allow: allow() });
    const ended = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    const addresses = await Promise.race([asked, ended]);
    if (isIP(destination.host)) place.addresses = addresses;
    return addresses;
  }

  function limit(ms: number): Limit {
    const controller = new AbortController();
    const late = () => controller.abort(new Error(`no complete answer within ${ms / 1000} seconds`));
    const cancelTimer = runtime.setTimer(late, ms);
    underWay.add(controller);
    return {
      signal: controller.signal,
      end() {
        cancelTimer();
        underWay.delete(controller);
      },
    };
  }

  return {
    async send({ method, url, headers, body, attempt }, signal) {
      const place = placeOf(url, allow());
      const addresses = place.addresses ?? (await lookUp(place, signal));
      const tries = Math.min(addresses.length, MOST_TRIES);
      const fields = { ...headers, ...place.fields };
      const options: BunFetchRequestInit = { ...place.terms, method, headers: fields, signal };
      if (body !== undefined) options.body = body;
      for (let turn = 1; ; turn++) {
        const route = routeOf(place, addresses[(attempt + turn - 2) % addresses.length] ?? "");
        try {
          const response = await session.fetch(route.url, options);
          if (answered.size >= MOST_IDLE) answered.clear();
          answered.add(route.peer);
          return response;
        } catch (error) {
          const code = codeOf(error) ?? "";
          // Closed while idle, perhaps, just when it was used again: no word of the receiver's about this request. A new
          // connection never was idle.
          if (code === "ECONNRESET" && options.keepalive !== false && answered.delete(route.peer)) {
            options.keepalive = false;
            turn--;
          } else if (turn >= tries || !NO_CONNECTION.has(code)) throw error;
        }
      }
    },
    limit,
    async within(ms, work) {
      const { signal, end } = limit(ms);
      try {
        return await work(signal);
      } finally {
        end();
      }
    },
    close() {
      for (const controller of underWay) controller.abort(new Error("this server is stopping"));
      session.close();
    },
  };
}

/** The code of an error of Bun's or of node's. */
export const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

/** Nothing was sent yet. */
const NO_CONNECTION = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"]);
