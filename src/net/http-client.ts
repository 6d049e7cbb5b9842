/**
 * The guarded HTTP client, for URLs that strangers choose: a webhook's receiver, an image in a mail, a certificate
 * authority. destination.ts checks the host's addresses at each request, and the request goes to a checked address,
 * even if DNS changes a moment later.
 *
 * Bun's fetch gets the checked address in its URL, and the name only in the Host field and for TLS, so it looks nothing
 * up. It follows no redirect and uses no proxy, cookie, other HTTP version or decompression. Connections are pooled by
 * address, port and TLS name, and only here: one is used again only while DNS still gives its address.
 */
import { isIP } from "node:net";
import type { Runtime } from "../base/runtime.ts";
import { type Destination, RefusedDestination, readDestination, resolveDestination } from "./destination.ts";

export interface HttpRequest {
  method: "GET" | "HEAD" | "POST";
  url: string;
  /** Headers beside those of HTTP itself. */
  headers: Readonly<Record<string, string>>;
  body?: string | Uint8Array<ArrayBuffer>;
  /** Number of the attempt, from 1 (the default): each begins with another of the host's addresses. */
  attempt?: number;
}

export type HttpClient = ReturnType<typeof openHttpClient>;

export interface HttpClientParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "authorities">;
  /**
   * Excepted networks (rules: Webhook destinations), read at each request. Gives the same array while they are
   * unchanged.
   */
  allow(): readonly string[];
  /** Idle connections to keep; 32 unless given. */
  mostIdle?: number;
  /** Works at once, no limit unless given; others wait for their turn, which takes nothing of their time. */
  mostAtOnce?: number;
}

/** Shorter than the 5 seconds after which common servers close an idle connection. */
const IDLE_SECONDS = 4;
const USUAL_MOST_IDLE = 32;
/**
 * Characters of a body. After a longer one no connection is kept: over TLS Bun keeps even one whose server reads no
 * more.
 */
const LARGEST_KEPT = 64 * 1024;

/** URLs whose parsed form is kept. */
const MOST_PARSED = 1_000;
/** Addresses tried for one request. */
const MOST_TRIES = 8;
/** Errors before the request was sent: the next address may take the connection. */
export const NO_CONNECTION = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"]);

/** A URL that was parsed and checked without DNS, with the options that all its requests share. */
interface ParsedUrl {
  readonly destination: Destination;
  readonly options: BunFetchRequestInit;
  readonly headers: Readonly<Record<string, string>>;
  /** The checked address, if the URL has one instead of a name. */
  addresses: readonly string[] | undefined;
}

/** The code of an error of Bun's or of node's. */
export const errorCode = (error: unknown): string | undefined => (error as { code?: string }).code;

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed before the answer was complete",
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the network cannot be reached",
  EPROTO: "the other side does not speak TLS as we do",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is for another name",
};

/** Says why a request failed. Bun's own message is left out, since it names the address. */
export function describeHttpFailure(error: unknown): string {
  const code = errorCode(error);
  if (error instanceof RefusedDestination || code === undefined) return (error as Error).message;
  if (REASONS[code]) return REASONS[code];
  if (/CERT|ISSUER|PURPOSE|VERIFY/.test(code)) return `the certificate cannot be trusted (${code})`;
  return /HTTP|Content|Headers|Upgrade/.test(code) ? `the answer is not valid HTTP (${code})` : `no answer (${code})`;
}

/** The addresses in the order of trying them; each `attempt`, from 1, begins with another. */
function inTurn(addresses: readonly string[], attempt: number): readonly string[] {
  if (addresses.length === 1) return addresses;
  const first = (attempt - 1) % addresses.length;
  return [...addresses.slice(first), ...addresses.slice(0, first)].slice(0, MOST_TRIES);
}

const stopping = (): Error => new Error("this server is stopping");

export function openHttpClient({
  runtime,
  allow,
  mostIdle = USUAL_MOST_IDLE,
  mostAtOnce = Number.POSITIVE_INFINITY,
}: HttpClientParts) {
  const session = new Bun.FetchSession({
    proxy: false,
    keepAlive: { idleTimeout: IDLE_SECONDS, maxIdleSockets: mostIdle },
  });
  const trust = runtime.authorities && { ca: [...runtime.authorities] };
  /** Peers to which an idle connection may be open. */
  const answered = new Set<string>();
  const underWay = new Set<AbortController>();
  /** Turns that are taken, and those that wait for one, in their order. */
  let turns = 0;
  const waiting: (() => void)[] = [];
  let closed = false;

  const parsed = new Map<string, ParsedUrl>();
  /** The excepted networks with which `parsed` was filled. */
  let parsedWith: readonly string[] = [];

  /** @throws RefusedDestination */
  function parse(url: string): ParsedUrl {
    const excepted = allow();
    if (excepted !== parsedWith || parsed.size >= MOST_PARSED) parsed.clear();
    parsedWith = excepted;
    const known = parsed.get(url);
    if (known) return known;
    const destination = readDestination(url, excepted);
    const { protocol, host, authority } = destination;
    const tls = protocol === "https:" && { tls: { ...trust, ...(isIP(host) === 0 && { serverName: host }) } };
    const made: ParsedUrl = {
      destination,
      options: { redirect: "manual", decompress: false, protocol: "http1.1", ...tls },
      headers: { host: authority, "accept-encoding": "identity", "user-agent": "Mailroom" },
      addresses: undefined,
    };
    parsed.set(url, made);
    return made;
  }

  /** The host's present addresses, checked. @throws RefusedDestination; errors of DNS; the signal's reason */
  async function resolveUrlHost(url: ParsedUrl, signal: AbortSignal): Promise<readonly string[]> {
    if (url.addresses) return url.addresses;
    const ended = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    const { destination } = url;
    const addresses = await Promise.race([
      resolveDestination(destination, { dns: runtime.dns, allow: allow() }),
      ended,
    ]);
    if (isIP(destination.host)) url.addresses = addresses;
    return addresses;
  }

  async function sendTo(
    { method, headers, body }: HttpRequest,
    { destination: { protocol, port, host, path }, options: shared, headers: own }: ParsedUrl,
    address: string,
    signal: AbortSignal,
  ): Promise<Response> {
    const origin = `${protocol}//${address.includes(":") ? `[${address}]` : address}:${port}`;
    const options: BunFetchRequestInit = { ...shared, method, headers: { ...headers, ...own }, signal };
    if (body !== undefined) options.body = body;
    if (body !== undefined && body.length > LARGEST_KEPT) options.keepalive = false;
    const peer = `${origin} ${host}`;
    let response: Response;
    try {
      response = await session.fetch(origin + path, options);
    } catch (error) {
      // The peer may have closed an idle connection just as it was used again, so it has not seen this request.
      if (errorCode(error) !== "ECONNRESET" || !answered.delete(peer)) throw error;
      response = await session.fetch(origin + path, { ...options, keepalive: false });
    }
    if (answered.size >= mostIdle) answered.clear();
    answered.add(peer);
    return response;
  }

  return {
    /**
     * Resolves with the response, even a redirect, before its body, which the caller reads or cancels. When an address
     * does not take the connection, the next is tried.
     * @throws RefusedDestination; errors of DNS, or of Bun's fetch for the address tried last
     */
    async send(request: HttpRequest, signal: AbortSignal): Promise<Response> {
      const url = parse(request.url);
      const addresses = inTurn(await resolveUrlHost(url, signal), request.attempt ?? 1);
      for (let turn = 0; ; turn++) {
        try {
          return await sendTo(request, url, addresses[turn] ?? "", signal);
        } catch (error) {
          if (turn + 1 >= addresses.length || !NO_CONNECTION.has(errorCode(error) ?? "")) throw error;
        }
      }
    },
    /**
     * Does `work` with a signal that aborts after `ms`, or when the client is closed.
     * @throws then; errors of `work`
     */
    async within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
      if (turns < mostAtOnce) turns++;
      else await new Promise<void>((resolve) => waiting.push(resolve));
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
        const next = waiting.shift();
        if (next) next();
        else turns--;
      }
    },
    /** Ends work under way and every connection. */
    close(): void {
      closed = true;
      for (const limit of underWay) limit.abort(stopping());
      for (const end of waiting.splice(0)) end();
      session.close();
    },
  };
}
