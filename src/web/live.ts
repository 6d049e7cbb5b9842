/**
 * News for open pages, as server-sent events: which conversations mail arrived in. A page asks for the rest itself.
 *
 * Invariants: a page hears only of mail that its person reaches; streams are bounded, in all and by person; whatever the
 * rate of commits, each looks no more than some four times a second; none outlives its session for longer than a
 * heartbeat, nor the server.
 */
import { findSession, type Session } from "../access/sessions.ts";
import { AppError } from "../errors.ts";
import { arrivalsSince, latestEvent } from "../events/arrivals.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Runtime } from "../runtime.ts";
import type { Store } from "../store/store.ts";
import type { Asked, Route } from "./route.ts";
import type { SessionCookie } from "./session-cookie.ts";

export interface LiveParts {
  store: Pick<Store, "db" | "onCommit">;
  mailbox: Pick<Mailbox, "listMessages">;
  cookie: SessionCookie;
  runtime: Pick<Runtime, "now" | "setTimer">;
}

export interface Live {
  route: Route;
  /** Looks for what another process wrote. */
  look(): void;
  /** Ends every stream. */
  stop(): void;
}

const MOST_STREAMS = 500;
const MOST_STREAMS_BY_PERSON = 12;
const LOOK_MS = 250;
/** Below what proxies and Bun.serve take for a dead connection. */
const HEARTBEAT_MS = 25_000;
/** Arrivals looked at at once, and the most conversations that an event names. */
const PAGE = 100;

interface Stream {
  session: Session;
  token: string;
  /** Number of the last event that was looked at. */
  seq: number;
  send(text: string): void;
  end(): void;
}

export function createLive({ store, mailbox, cookie, runtime }: LiveParts): Live {
  const { db } = store;
  const streams = new Set<Stream>();
  let seen = latestEvent(db);
  let rests = false;
  let stopped = false;

  function tell(stream: Stream): void {
    const { caller } = stream.session;
    for (;;) {
      const arrivals = arrivalsSince(db, caller.workspaceId, stream.seq, PAGE);
      const last = arrivals.at(-1);
      if (!last) return;
      stream.seq = last.seq;
      const among = arrivals.map(({ emailId }) => emailId);
      const reached = mailbox.listMessages(caller, { among, limit: PAGE });
      if (reached.length === 0) continue;
      const threadIds = [...new Set(reached.map(({ threadId }) => threadId))];
      stream.send(`event: mail\nid: ${last.seq}\ndata: ${JSON.stringify({ threadIds })}\n\n`);
    }
  }

  /** Who lost their session, or their role, has by now. */
  function renew(stream: Stream): boolean {
    const session = findSession(db, stream.token, runtime.now());
    if (session) stream.session = session;
    else stream.end();
    return session !== undefined;
  }

  function look(): void {
    if (rests || streams.size === 0 || latestEvent(db) === seen) return;
    rests = true;
    runtime.setTimer(() => {
      rests = false;
      look();
    }, LOOK_MS);
    // Not within the commit: this reads, and may fail.
    queueMicrotask(() => {
      seen = latestEvent(db);
      for (const stream of [...streams]) if (renew(stream)) tell(stream);
    });
  }
  store.onCommit(look);

  function open({ request, session }: Asked): Response {
    const theirs = [...streams].filter((stream) => stream.session.caller.userId === session.caller.userId).length;
    if (stopped || theirs >= MOST_STREAMS_BY_PERSON || streams.size >= MOST_STREAMS) {
      throw new AppError("rate_limited", "Too many pages listen for mail already", { retryAfter: 60 });
    }
    if (streams.size === 0) seen = latestEvent(db);
    const encoder = new TextEncoder();
    let end = () => {};
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        let cancelBeat = () => {};
        const lastSeen = Number(request.headers.get("last-event-id") ?? Number.NaN);
        const stream: Stream = {
          session,
          token: cookie.read(request) ?? "",
          seq: Number.isSafeInteger(lastSeen) && lastSeen > 0 ? lastSeen : latestEvent(db),
          send: (text) => controller.enqueue(encoder.encode(text)),
          end: () => {
            if (!streams.delete(stream)) return;
            cancelBeat();
            controller.close();
          },
        };
        const beat = () => {
          if (!renew(stream)) return;
          stream.send(": still here\n\n");
          cancelBeat = runtime.setTimer(beat, HEARTBEAT_MS);
        };
        end = stream.end;
        streams.add(stream);
        stream.send("retry: 3000\n\n");
        tell(stream);
        cancelBeat = runtime.setTimer(beat, HEARTBEAT_MS);
      },
      cancel: () => end(),
    });
    request.signal.addEventListener("abort", () => end());
    return new Response(body, { headers: { "content-type": "text/event-stream", "x-accel-buffering": "no" } });
  }

  return {
    route: { method: "GET", path: "/live", run: open },
    look,
    stop() {
      stopped = true;
      for (const stream of [...streams]) stream.end();
    },
  };
}
