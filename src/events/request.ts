/**
 * One HTTP request to a receiver of webhooks: a POST to the address that was checked, whatever DNS says a moment later.
 *
 * Bun's fetch is given the checked address in its URL, the name only in the Host field and for TLS, so that it has
 * nothing to look up; no proxy, redirect, other HTTP version or decompression comes between. Connections are pooled by
 * address, port and TLS name, and only here: one is used again only while DNS still gives its address.
 *
 * Invariant: the time limit covers everything, from the question to DNS to the last byte of the answer, and whatever a
 * receiver sends, 4 KiB of it are kept.
 */
import { isIP } from "node:net";
import { type Destination, RefusedDestination, readDestination, resolveDestination } from "../destination.ts";
import type { Runtime } from "../runtime.ts";

export interface WebhookRequest {
  url: string;
  /** Beside those of HTTP itself; Content-Type among them. */
  headers: Readonly<Record<string, string>>;
  body: string;
  timeoutMs: number;
  /** Which attempt it is, from 1: each begins with another of the host's addresses. */
  attempt: number;
}

export interface RequestOutcome {
  /** Answered 2xx, wholly and in time (spec: Delivery semantics 1). */
  ok: boolean;
  /** Of the answer, if one began. */
  status?: number;
  /** The first 4 KiB of the answer's body. */
  response?: string;
  /** What went wrong, for people. */
  error?: string;
  /** The destination is not connected to: trying again does not help. */
  refused?: true;
  /** How long it took. */
  ms: number;
}

export interface Requests {
  /** Never rejects. */
  post(request: WebhookRequest): Promise<RequestOutcome>;
  /** Ends requests under way, and every connection. */
  close(): void;
}

export interface RequestParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer">;
  /** Excepted networks, asked for at each request (contract: webhooks.allowNetworks); the same array while they are. */
  allow(): readonly string[];
  /** Certificate authorities (PEM) that are trusted instead of the built-in ones. */
  authorities?: readonly string[];
}

const KEPT_BYTES = 4096;
/** Addresses tried for one attempt. */
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
}

export function openRequests({ runtime, allow, authorities }: RequestParts): Requests {
  const session = new Bun.FetchSession({
    proxy: false,
    keepAlive: { idleTimeout: IDLE_SECONDS, maxIdleSockets: MOST_IDLE },
  });
  const trust = authorities && { ca: [...authorities] };
  /** Whom a connection may be kept to. */
  const answered = new Set<string>();
  const underWay = new Set<AbortController>();
  const places = new Map<string, Place>();
  let placesFor: readonly string[] = [];

  /** @throws RefusedDestination */
  function placeOf(url: string, excepted: readonly string[]): Place {
    if (excepted !== placesFor || places.size >= MOST_PLACES) places.clear();
    placesFor = excepted;
    let place = places.get(url);
    if (!place) {
      place = { destination: readDestination(url, excepted), addresses: undefined };
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

  async function exchange(request: WebhookRequest, signal: AbortSignal, outcome: RequestOutcome): Promise<void> {
    const place = placeOf(request.url, allow());
    const addresses = place.addresses ?? (await lookUp(place, signal));
    const first = (request.attempt - 1) % addresses.length;
    const inTurn = [...addresses.slice(first), ...addresses.slice(0, first)].slice(0, MOST_TRIES);
    const response = await firstToConnect(inTurn, (address) => send(request, place.destination, address, signal));
    outcome.status = response.status;
    outcome.response = await startOf(response);
    outcome.ok = response.ok;
    if (!response.ok) outcome.error = describeStatus(response.status);
  }

  async function send(
    request: WebhookRequest,
    { protocol, host, port, authority, path }: Destination,
    address: string,
    signal: AbortSignal,
  ): Promise<Response> {
    const origin = `${protocol}//${address.includes(":") ? `[${address}]` : address}:${port}`;
    const options: BunFetchRequestInit = {
      method: "POST",
      headers: { ...request.headers, host: authority, "accept-encoding": "identity", "user-agent": "Mailroom" },
      body: request.body,
      redirect: "manual",
      decompress: false,
      protocol: "http1.1",
      signal,
      ...(protocol === "https:" && { tls: { ...trust, ...(isIP(host) === 0 && { serverName: host }) } }),
    };
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
    async post(request) {
      const begin = runtime.now();
      const limit = new AbortController();
      underWay.add(limit);
      const cancelTimer = runtime.setTimer(
        () => limit.abort(new Error(`no complete answer within ${request.timeoutMs / 1000} seconds`)),
        request.timeoutMs,
      );
      const outcome: RequestOutcome = { ok: false, ms: 0 };
      try {
        await exchange(request, limit.signal, outcome);
      } catch (error) {
        outcome.error = describeError(error as Error);
        if (error instanceof RefusedDestination) outcome.refused = true;
      } finally {
        cancelTimer();
        underWay.delete(limit);
      }
      // A copy: an answer that comes in the moment of the limit changes nothing any more.
      return { ...outcome, ms: runtime.now() - begin };
    },
    close() {
      for (const limit of underWay) limit.abort(new Error("this server is stopping"));
      session.close();
    },
  };
}

/** @throws the last failure, when no address takes the connection; another failure at once */
async function firstToConnect(
  addresses: readonly string[],
  send: (address: string) => Promise<Response>,
): Promise<Response> {
  for (const address of addresses.slice(0, -1)) {
    try {
      return await send(address);
    } catch (error) {
      if (!NO_CONNECTION.has(codeOf(error) ?? "")) throw error;
    }
  }
  return await send(addresses.at(-1) ?? "");
}

/** The body up to what is kept; the connection is closed under the rest. */
async function startOf(response: Response): Promise<string> {
  const { headers } = response;
  // Nearly every answer, and cheaper than a stream of it; a length beside chunks says nothing (RFC 9112 §6.3).
  if (!headers.has("transfer-encoding") && Number(headers.get("content-length") ?? Infinity) <= KEPT_BYTES) {
    return readableText(await response.bytes());
  }
  const kept = new Uint8Array(KEPT_BYTES);
  let size = 0;
  const reader = response.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    kept.set(read.value.subarray(0, KEPT_BYTES - size), size);
    size += read.value.length;
    if (size > KEPT_BYTES) {
      await reader?.cancel();
      break;
    }
  }
  return readableText(kept.subarray(0, Math.min(size, KEPT_BYTES)));
}

/** As UTF-8, less a last character that is cut off; control characters, which a terminal would obey, are replaced. */
function readableText(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes, { stream: true });
  return text.replace(/[^\P{Cc}\t\r\n]/gu, "\ufffd");
}

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

/** Nothing was sent yet. */
const NO_CONNECTION = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"]);

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed before the answer was complete",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  EPROTO: "the other side does not speak TLS as we do",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is for another name",
};

/** Never the message of an error of Bun's: it names the address, which is none of the receiver's admins' business. */
function describeError(error: Error): string {
  const code = codeOf(error);
  if (error instanceof RefusedDestination || code === undefined) return error.message;
  if (REASONS[code]) return REASONS[code];
  if (/CERT|ISSUER|VERIFY/.test(code)) return `the certificate cannot be trusted (${code})`;
  return /HTTP|Content|Headers|Upgrade/.test(code) ? `the answer is not valid HTTP (${code})` : `no answer (${code})`;
}

const describeStatus = (status: number): string =>
  status >= 300 && status < 400 ? `answered ${status}, and redirects are not followed` : `answered ${status}`;
