/**
 * One HTTP request to a receiver of webhooks: a POST over a connection of our own, and what came of it. It goes to the
 * address that was checked, whatever DNS says a moment later; nothing that receivers or the environment say leads it
 * elsewhere. Connections are kept for the next request to the same address, port and TLS name.
 *
 * Not by Bun's fetch, which takes half as much again for each, most of it in a thread of its own.
 *
 * Invariant: the time limit covers everything, from the question to DNS to the last byte of the answer, and whatever a
 * receiver sends, 4 KiB of it are kept.
 */
import { isIP } from "node:net";
import type { TLSOptions } from "bun";
import type { Runtime } from "../base/runtime.ts";
import type { Destination } from "../net/destination.ts";
import { createPlaces, inTurn, NO_CONNECTION, type Place, type PlacesParts } from "../net/urls.ts";
import { BROKEN, type Connection, createConnector, drop, send } from "./connection.ts";
import { createIdleConnections } from "./idle.ts";
import { failureBy, outcomeOf, wordingOf } from "./wording.ts";

export interface WebhookRequest {
  url: string;
  /** The fields of its header beside those of HTTP itself, as they are sent: a line each, with its end. */
  fields: string;
  body: string;
  timeoutMs: number;
  /** Which attempt it is, from 1: each begins with another of the host's addresses. */
  attempt: number;
}

export interface RequestOutcome {
  /** Answered 2xx, wholly and in time (rules: Webhook attempts). */
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

export interface RequestParts extends PlacesParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "authorities">;
  /** Connections that are kept for the next request. */
  mostIdle: number;
}

const STOPPING = "this server is stopping";

/** What is the same for every request to a place. */
interface Terms {
  /** The header up to the value of Content-Length. */
  readonly head: string;
  readonly tls: TLSOptions | undefined;
  /** Of connections, after the address. */
  readonly key: string;
}

/** A time limit, of all requests that began in the same millisecond with the same one: a timer for each costs more. */
interface Limit {
  /** Epoch ms. */
  readonly since: number;
  readonly timeoutMs: number;
  /** Requests under way. */
  requests: number;
  cancelTimer: () => void;
}

/** A request under way. */
interface Posting {
  readonly request: WebhookRequest;
  readonly place: Place<Terms>;
  readonly limit: Limit;
  readonly resolve: (outcome: RequestOutcome) => void;
  addresses: readonly string[];
  /** Of the address that is tried. */
  turn: number;
  connection: Connection<Posting> | undefined;
  /** The connection was kept from before. */
  isReused: boolean;
  /** One that was kept has failed, and no other is taken. */
  takesNew: boolean;
}

export function openRequests(parts: RequestParts): Requests {
  const { runtime } = parts;
  const places = createPlaces(parts, (destination) => termsOf(destination, runtime.authorities));
  const underWay = new Set<Posting>();
  const idle = createIdleConnections<Posting>(runtime, parts.mostIdle);
  /** Of the request that began last. */
  let lastLimit: Limit | undefined;
  let closed = false;

  const openConnection = createConnector<Posting>({
    onEnd(connection, posting, failure) {
      if (failure === undefined) {
        if (!connection.isClosed) idle.keep(connection);
        settle(posting, outcomeOf(connection.answer));
      } else if (posting.isReused && !connection.answer.begun && failure === BROKEN) {
        // Closed while idle, perhaps, just when it was used again: no word of the receiver's about this request.
        posting.takesNew = true;
        sendNow(posting);
      } else if (!connection.isOpen && NO_CONNECTION.has(failure) && posting.turn + 1 < posting.addresses.length) {
        posting.turn++;
        sendNow(posting);
      } else fail(posting, wordingOf(failure));
    },
    onGone: idle.forget,
  });

  /** To the address whose turn it is. */
  function sendNow(posting: Posting): void {
    const { place, addresses, turn, request } = posting;
    const { head, tls, key: termsKey } = place.terms;
    const address = addresses[turn] ?? "";
    const key = address + termsKey;
    try {
      const kept = posting.takesNew ? undefined : idle.take(key);
      posting.isReused = kept !== undefined;
      posting.connection = kept ?? openConnection(key, { address, port: place.destination.port, tls });
      const length = Buffer.byteLength(request.body);
      send(posting.connection, posting, `${head}${length}\r\n${request.fields}\r\n`, request.body, length);
    } catch (error) {
      settle(posting, failureBy(error as Error));
    }
  }

  function start(posting: Posting, addresses: readonly string[]): void {
    if (!underWay.has(posting)) return;
    posting.addresses = inTurn(addresses, posting.request.attempt);
    sendNow(posting);
  }

  function settle(posting: Posting, outcome: RequestOutcome): void {
    if (!underWay.delete(posting)) return;
    const { limit } = posting;
    if (--limit.requests === 0) limit.cancelTimer();
    outcome.ms = runtime.now() - limit.since;
    posting.resolve(outcome);
  }

  function fail(posting: Posting, error: string): void {
    const outcome: RequestOutcome = { ok: false, error, ms: 0 };
    const status = posting.connection?.answer.status;
    if (status !== undefined) outcome.status = status;
    settle(posting, outcome);
  }

  function cutShort(posting: Posting, error: string): void {
    if (posting.connection) drop(posting.connection);
    fail(posting, error);
  }

  /** For a request that begins now. */
  function limitOf(timeoutMs: number): Limit {
    const since = runtime.now();
    if (lastLimit?.since !== since || lastLimit.timeoutMs !== timeoutMs || lastLimit.requests === 0) {
      const limit: Limit = {
        ...{ since, timeoutMs, requests: 0 },
        cancelTimer: runtime.setTimer(() => expire(limit), timeoutMs),
      };
      lastLimit = limit;
    }
    lastLimit.requests++;
    return lastLimit;
  }

  function expire(limit: Limit): void {
    const error = `no complete answer within ${limit.timeoutMs / 1_000} seconds`;
    for (const posting of underWay) if (posting.limit === limit) cutShort(posting, error);
  }

  function begin(request: WebhookRequest, place: Place<Terms>, resolve: Posting["resolve"]): void {
    const posting: Posting = {
      request,
      place,
      limit: limitOf(request.timeoutMs),
      resolve,
      addresses: [],
      turn: 0,
      connection: undefined,
      isReused: false,
      takesNew: false,
    };
    underWay.add(posting);
    if (place.addresses) start(posting, place.addresses);
    else {
      places.lookUp(place).then(
        (addresses) => start(posting, addresses),
        (error: Error) => settle(posting, failureBy(error)),
      );
    }
  }

  return {
    post: (request) =>
      new Promise((resolve) => {
        if (closed) return resolve({ ok: false, error: STOPPING, ms: 0 });
        try {
          begin(request, places.find(request.url), resolve);
        } catch (error) {
          resolve(failureBy(error as Error));
        }
      }),
    close() {
      closed = true;
      for (const posting of underWay) cutShort(posting, STOPPING);
      idle.close();
    },
  };
}

/** `authorities`: as of the runtime. */
function termsOf({ protocol, host, port, authority, path }: Destination, authorities?: readonly string[]): Terms {
  const isTls = protocol === "https:";
  // The server is told of a name, and never of an address (RFC 6066 §3).
  const tls: TLSOptions = { rejectUnauthorized: true, serverName: isIP(host) ? "" : host };
  if (authorities) tls.ca = [...authorities];
  return {
    tls: isTls ? tls : undefined,
    key: ` ${port} ${isTls ? host : ""}`,
    head:
      `POST ${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: keep-alive\r\nUser-Agent: Mailroom\r\n` +
      "Accept: */*\r\nAccept-Encoding: identity\r\nContent-Length: ",
  };
}
