/**
 * One HTTP request to a URL that somebody else chose: a webhook's receiver, an image in a mail, a certificate authority. It
 * goes to the address that was checked, whatever DNS says a moment later.
 *
 * Bun's fetch is given the checked address in its URL, the name only in the Host field and for TLS, so that it has
 * nothing to look up; no proxy, cookie, redirect, other HTTP version or decompression comes between. Connections are
 * pooled by address, port and TLS name, and only here: one is used again only while DNS still gives its address.
 */
import { isIP } from "node:net";
import type { Runtime } from "../base/runtime.ts";
import type { Destination } from "./destination.ts";
import { codeOf, createPlaces, inTurn, NO_CONNECTION, type Place, type PlacesParts } from "./urls.ts";

export interface HttpRequest {
  method: "GET" | "HEAD" | "POST";
  url: string;
  /** Beside those of HTTP itself. */
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** Which attempt it is, from 1: each begins with another of the host's addresses. 1 unless given. */
  attempt?: number;
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

export interface HttpClientParts extends PlacesParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "authorities">;
  /** Connections that are kept for the next request; 32 unless given. */
  mostIdle?: number;
}

/** Below the 5 seconds after which common servers close an idle connection. */
const IDLE_SECONDS = 4;
const USUAL_MOST_IDLE = 32;
/** Characters of a body. After a longer one no connection is kept: over TLS Bun keeps even one whose server reads no more. */
const LARGEST_KEPT = 64 * 1024;

const stopping = (): Error => new Error("this server is stopping");

/** What is the same for every request to a place: of fetch, and of the header. */
interface Terms {
  readonly options: BunFetchRequestInit;
  readonly fields: Readonly<Record<string, string>>;
}

export function openHttpClient(parts: HttpClientParts): HttpClient {
  const { runtime, mostIdle = USUAL_MOST_IDLE } = parts;
  const session = new Bun.FetchSession({
    proxy: false,
    keepAlive: { idleTimeout: IDLE_SECONDS, maxIdleSockets: mostIdle },
  });
  const trust = runtime.authorities && { ca: [...runtime.authorities] };
  /** Whom a connection may be kept to. */
  const answered = new Set<string>();
  const underWay = new Set<AbortController>();
  let closed = false;

  const places = createPlaces(parts, ({ protocol, host, authority }: Destination): Terms => {
    const tls = protocol === "https:" && { tls: { ...trust, ...(isIP(host) === 0 && { serverName: host }) } };
    return {
      options: { redirect: "manual", decompress: false, protocol: "http1.1", ...tls },
      fields: { host: authority, "accept-encoding": "identity", "user-agent": "Mailroom" },
    };
  });

  async function lookUp(place: Place<Terms>, signal: AbortSignal): Promise<readonly string[]> {
    const ended = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    return Promise.race([places.lookUp(place), ended]);
  }

  async function sendTo(
    { method, headers, body }: HttpRequest,
    { destination: { protocol, port, host, path }, terms }: Place<Terms>,
    address: string,
    signal: AbortSignal,
  ): Promise<Response> {
    const origin = `${protocol}//${address.includes(":") ? `[${address}]` : address}:${port}`;
    const options: BunFetchRequestInit = { ...terms.options, method, headers: { ...headers, ...terms.fields }, signal };
    if (body !== undefined) options.body = body;
    if (body !== undefined && body.length > LARGEST_KEPT) options.keepalive = false;
    const peer = `${origin} ${host}`;
    let response: Response;
    try {
      response = await session.fetch(origin + path, options);
    } catch (error) {
      // Closed while idle, perhaps, just when it was used again: no word of the receiver's about this request.
      if (codeOf(error) !== "ECONNRESET" || !answered.delete(peer)) throw error;
      response = await session.fetch(origin + path, { ...options, keepalive: false });
    }
    if (answered.size >= mostIdle) answered.clear();
    answered.add(peer);
    return response;
  }

  return {
    async send(request, signal) {
      const place = places.find(request.url);
      const addresses = inTurn(place.addresses ?? (await lookUp(place, signal)), request.attempt ?? 1);
      for (let turn = 0; ; turn++) {
        try {
          return await sendTo(request, place, addresses[turn] ?? "", signal);
        } catch (error) {
          if (turn + 1 >= addresses.length || !NO_CONNECTION.has(codeOf(error) ?? "")) throw error;
        }
      }
    },
    async within(ms, work) {
      if (closed) throw stopping();
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
      closed = true;
      for (const limit of underWay) limit.abort(stopping());
      session.close();
    },
  };
}
