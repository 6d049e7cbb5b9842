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
import { createSecureContext, type SecureContext } from "node:tls";
import type { Destination } from "../destination.ts";
import { createPlaces, inTurn, NO_CONNECTION, type Place, type PlacesParts } from "../places.ts";
import type { Runtime } from "../runtime.ts";
import { BROKEN, type Connection, drop, openConnection, send, type Watcher } from "./connection.ts";
import { failureBy, outcomeOf, wordingOf } from "./wording.ts";

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

export interface RequestParts extends PlacesParts {
  runtime: Pick<Runtime, "dns" | "now" | "setTimer" | "authorities">;
}

const STOPPING = "this server is stopping";

/** A buffer of its own for each request would cost a tenth more in all; only a larger one has it. */
const ROOM_BYTES = 16 * 1_024;

/** Connections kept for the next request, to whatever place. */
const MOST_IDLE = 256;

/** What is the same for every request to a place. */
interface Terms {
  /** The header up to the value of Content-Length. */
  readonly head: string;
  readonly tls: { host: string; serverName: string | undefined } | undefined;
  /** Of connections, after the address. */
  readonly key: string;
}

/** A request under way. */
interface Posting {
  readonly request: WebhookRequest;
  readonly place: Place<Terms>;
  /** When it began, epoch ms. */
  readonly since: number;
  readonly resolve: (outcome: RequestOutcome) => void;
  cancelTimer: (() => void) | undefined;
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
  const places = createPlaces(parts, termsOf);
  const underWay = new Set<Posting>();
  /** The one kept last at the end. */
  const idle: Connection<Posting>[] = [];
  /** Where one request after another is put together. */
  let room = Buffer.allocUnsafeSlow(ROOM_BYTES);
  let context: SecureContext | undefined;
  let closed = false;

  /** Made for all connections: reading authorities takes time. */
  function trust(): SecureContext {
    context ??= createSecureContext(runtime.authorities && { ca: [...runtime.authorities] });
    return context;
  }

  function takeIdle(key: string): Connection<Posting> | undefined {
    for (let i = idle.length - 1; i >= 0; i--) {
      if (idle[i]?.key === key) return i === idle.length - 1 ? idle.pop() : idle.splice(i, 1)[0];
    }
    return undefined;
  }

  function keepIdle(connection: Connection<Posting>): void {
    idle.push(connection);
    if (idle.length > MOST_IDLE) drop(idle.shift() as Connection<Posting>);
  }

  const watcher: Watcher<Posting> = {
    onEnd(connection, posting, failure) {
      if (failure === undefined) {
        if (!connection.socket.destroyed) keepIdle(connection);
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
    onGone(connection) {
      const i = idle.indexOf(connection);
      if (i >= 0) idle.splice(i, 1);
    },
  };

  function connect(key: string, address: string, { destination, terms }: Place<Terms>): Connection<Posting> {
    const tls = terms.tls && { ...terms.tls, context: trust() };
    return openConnection(key, { address, port: destination.port, tls }, watcher);
  }

  /** To the address whose turn it is. */
  function sendNow(posting: Posting): void {
    const { place, addresses, turn, request } = posting;
    const address = addresses[turn] ?? "";
    const key = address + place.terms.key;
    try {
      const bytes = encode(place.terms.head, request, room);
      const kept = posting.takesNew ? undefined : takeIdle(key);
      posting.isReused = kept !== undefined;
      posting.connection = kept ?? connect(key, address, place);
      if (!send(posting.connection, posting, bytes)) room = Buffer.allocUnsafeSlow(ROOM_BYTES);
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
    posting.cancelTimer?.();
    outcome.ms = runtime.now() - posting.since;
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

  function begin(request: WebhookRequest, place: Place<Terms>, resolve: Posting["resolve"]): void {
    const posting: Posting = {
      request,
      place,
      since: runtime.now(),
      resolve,
      cancelTimer: undefined,
      addresses: [],
      turn: 0,
      connection: undefined,
      isReused: false,
      takesNew: false,
    };
    const { timeoutMs } = request;
    underWay.add(posting);
    posting.cancelTimer = runtime.setTimer(
      () => cutShort(posting, `no complete answer within ${timeoutMs / 1_000} seconds`),
      timeoutMs,
    );
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
      for (const connection of idle.splice(0)) drop(connection);
    },
  };
}

function termsOf({ protocol, host, port, authority, path }: Destination): Terms {
  const tls = protocol === "https:" ? { host, serverName: isIP(host) ? undefined : host } : undefined;
  return {
    tls,
    key: ` ${port} ${tls ? host : ""}`,
    head:
      `POST ${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: keep-alive\r\nUser-Agent: Mailroom\r\n` +
      "Accept: */*\r\nAccept-Encoding: identity\r\nContent-Length: ",
  };
}

/** RFC 9110 §5.5, so that a value is never the beginning of another line. */
const NOT_OF_VALUES = /[^\t\x20-\x7e\x80-\xff]/;

/**
 * Head and body in one, so that one packet carries both if they are small; in `room`, if it is large enough.
 * @throws when a header cannot be sent
 */
function encode(head: string, { headers, body }: WebhookRequest, room: Buffer): Buffer {
  const length = Buffer.byteLength(body);
  let text = `${head}${length}\r\n`;
  for (const name in headers) {
    const value = headers[name] ?? "";
    if (NOT_OF_VALUES.test(value)) throw new Error(`the header ${name} holds what no header may`);
    text += `${name}: ${value}\r\n`;
  }
  text += "\r\n";
  const size = text.length + length;
  const bytes = size > room.length ? Buffer.allocUnsafe(size) : room.subarray(0, size);
  bytes.write(text, "latin1");
  bytes.write(body, text.length);
  return bytes;
}
