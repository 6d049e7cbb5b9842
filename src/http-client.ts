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
  /** Does `work`, which obeys its signal, and ends it after `ms` or when the client is closed. @throws then, and whatever `work` throws */
  within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Ends work under way, and every connection. */
  close(): void;
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
/** URLs kept as they were read. */
const MOST_PLACES = 1_000;

/** What a URL comes to while the excepted networks stay the same; what a name leads to is asked at every attempt. */
interface Place {
  destination: Destination;
  /** Checked, if the URL spells one out. */
  addresses: string[] | undefined;
  /** What is the same for every request to it: of fetch, and of the header. */
  readonly terms: BunFetchRequestInit;
  readonly fields: Readonly<Record<string, string>>;
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
    };
  };

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

  async function sendTo(
    { method, headers, body }: HttpRequest,
    { destination: { protocol, port, host, path }, terms, fields }: Place,
    address: string,
    signal: AbortSignal,
  ): Promise<Response> {
    const origin = `${protocol}//${address.includes(":") ? `[${address}]` : address}:${port}`;
    const options: BunFetchRequestInit = { ...terms, method, headers: { ...headers, ...fields }, signal };
    if (body !== undefined) options.body = body;
    const peer = `${origin} ${host}`;
    let response: Response;
    try {
      response = await session.fetch(origin + path, options);
    } catch (error) {
      // Closed while idle, perhaps, just when it was used again: no word of the receiver's about this request.
      if (codeOf(error) !== "ECONNRESET" || !answered.delete(peer)) throw error;
      response = await session.fetch(origin + path, { ...options, keepalive: false });
    }
    if (answered.size >= MOST_IDLE) answered.clear();
    answered.add(peer);
    return response;
  }

  return {
    async send(request, signal) {
      const place = placeOf(request.url, allow());
      const addresses = place.addresses ?? (await lookUp(place, signal));
      const tries = Math.min(addresses.length, MOST_TRIES);
      for (let turn = 1; ; turn++) {
        const address = addresses[(request.attempt + turn - 2) % addresses.length] ?? "";
        try {
          return await sendTo(request, place, address, signal);
        } catch (error) {
          if (turn >= tries || !NO_CONNECTION.has(codeOf(error) ?? "")) throw error;
        }
      }
    },
    async within(ms, work) {
      const limit = new AbortController();
      underWay.add(limit);
      const cancelTimer = runtime.setTimer(
        () => limit.abort(new Error(`no complete answer within ${ms / 1000} seconds`)),
        ms,
      );
      try {
        return await work(limit.signal);
      } finally {
        cancelTimer();
        underWay.delete(limit);
      }
    },
    close() {
      for (const limit of underWay) limit.abort(new Error("this server is stopping"));
      session.close();
    },
  };
}

/** The code of an error of Bun's or of node's. */
export const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

/** Nothing was sent yet. */
const NO_CONNECTION = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"]);
