/**
 * Live updates for open pages, as server-sent events that name the conversations that changed. Pages fetch the rest.
 *
 * A page gives its position, the last change that it knows, in `?after=`, or in Last-Event-ID when its browser connects
 * again. So it misses no change. When the server no longer remembers that far back, or never had that position (after
 * the restore of a backup), it sends the event `all`, and the page loads everything again.
 *
 * Invariants: a page hears only of mailboxes that its person reaches; the number of streams is bounded, in all and by
 * person; the database is read at most four times a second, whatever the rate of commits; a stream ends within a
 * heartbeat of its session, and with the server; a failure here fails no commit.
 */
import { findReachableMailboxes } from "../access/caller.ts";
import { type BrowserSession, findSession } from "../access/sessions.ts";
import { urlQuery } from "../api/request.ts";
import { EVENT_STREAM } from "../api/unread-answers.ts";
import { unavailable } from "../base/errors.ts";
import { type ChangeRow, changesSince, latestChange } from "../mailbox/changing/change-feed.ts";
import { APP_ROUTES } from "../operations/app-routes.ts";
import type { Core } from "../store/core.ts";
import type { Asked, Route } from "./route.ts";
import type { SessionCookie } from "./session-cookie.ts";

const LOOK_MS = 250;
/** Shorter than the idle timeouts of proxies and of Bun.serve. */
const HEARTBEAT_MS = 25_000;
/** Conversations in one event, and changes read for it, at most; beyond that, the event is `all`. */
const MOST_NAMED = 100;
const MOST_LOOKED_AT = 1_000;
/** Bytes waiting in one stream. */
const MOST_UNSENT = 65_536;

interface Stream {
  session: BrowserSession;
  token: string;
  /** Number of the last change that the stream knows. */
  seq: number;
  send(text: string): void;
  end(): void;
}

const formatLiveEvent = (name: "mail" | "all", seq: number, data: object): string =>
  `event: ${name}\nid: ${seq}\ndata: ${JSON.stringify(data)}\n\n`;

export function createLiveUpdates({ db, store, runtime, log }: Core, cookie: SessionCookie) {
  const streams = new Set<Stream>();
  let seen = latestChange(db);
  let rests = false;
  let stopped = false;

  function endAll(): void {
    for (const stream of [...streams]) stream.end();
  }

  /** Logs what `work` throws and ends all streams; pages then connect again with their positions. */
  function safely<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      log.warn("open pages could not be told what changed", { error });
      endAll();
      return undefined;
    }
  }

  /** Caches queries for one round: most streams have the same position, and some the same person. */
  function createLook() {
    const latest = latestChange(db);
    const changes = new Map<number, readonly ChangeRow[] | undefined>();
    const reach = new Map<string, ReadonlySet<string>>();
    return {
      latest,
      changesSince(seq: number): readonly ChangeRow[] | undefined {
        if (!changes.has(seq)) changes.set(seq, changesSince(db, seq, MOST_LOOKED_AT));
        return changes.get(seq);
      },
      findReachableMailboxIds({ caller }: BrowserSession): ReadonlySet<string> {
        const known = reach.get(caller.userId) ?? new Set(findReachableMailboxes(db, caller).keys());
        reach.set(caller.userId, known);
        return known;
      },
    };
  }

  function tell(stream: Stream, look: ReturnType<typeof createLook>): void {
    if (stream.seq === look.latest) return;
    const changes = look.changesSince(stream.seq);
    const reached = look.findReachableMailboxIds(stream.session);
    const theirs = changes?.filter(({ mailboxId, userId }) =>
      userId === null ? mailboxId !== null && reached.has(mailboxId) : userId === stream.session.caller.userId,
    );
    stream.seq = look.latest;
    if (theirs?.length === 0 && changes && changes.length < MOST_LOOKED_AT) return;
    const hasOtherReach = theirs?.some(({ userId }) => userId !== null);
    const isAll =
      !changes || !theirs || hasOtherReach || changes.length === MOST_LOOKED_AT || theirs.length > MOST_NAMED;
    const named = isAll ? {} : { threadIds: theirs.map(({ threadId }) => threadId) };
    stream.send(formatLiveEvent(isAll ? "all" : "mail", stream.seq, named));
  }

  /** Reads the session again; ends the stream when it is over. */
  function renew(stream: Stream): boolean {
    const session = findSession(db, stream.token, runtime.now());
    if (session) stream.session = session;
    else stream.end();
    return session !== undefined;
  }

  function look(): void {
    if (rests || streams.size === 0 || !safely(() => latestChange(db) !== seen)) return;
    rests = true;
    runtime.setTimer(() => {
      rests = false;
      look();
    }, LOOK_MS);
    // After the commit, since this may take long.
    queueMicrotask(() =>
      safely(() => {
        const look = createLook();
        seen = look.latest;
        for (const stream of [...streams]) if (renew(stream)) tell(stream, look);
      }),
    );
  }
  store.onCommit(look);

  function open({ request, session }: Asked): Response {
    if (stopped) throw unavailable("The service is stopping");
    const latest = latestChange(db);
    if (streams.size === 0) seen = latest;
    const after = readPosition(request, latest);
    const encoder = new TextEncoder();
    let end = () => {};
    let forget = () => false;
    const body = new ReadableStream<Uint8Array>(
      {
        start(controller) {
          let cancelBeat = () => {};
          const stream: Stream = {
            session,
            token: cookie.read(request) ?? "",
            seq: after ?? latest,
            send(text) {
              controller.enqueue(encoder.encode(text));
              // A page that stopped reading gets the rest when it connects again.
              if ((controller.desiredSize ?? 0) < 0) stream.end();
            },
            end: () => {
              if (forget()) controller.close();
            },
          };
          forget = () => {
            cancelBeat();
            return streams.delete(stream);
          };
          const beat = () =>
            safely(() => {
              if (!renew(stream)) return;
              stream.send("event: beat\ndata: {}\n\n");
              // send() may have ended the stream.
              if (streams.has(stream)) cancelBeat = runtime.setTimer(beat, HEARTBEAT_MS);
            });
          end = stream.end;
          streams.add(stream);
          // The id gives the page a position even if it is cut off before the first event.
          stream.send(`retry: 3000\nid: ${stream.seq}\nevent: hello\ndata: {}\n\n`);
          if (after === undefined) stream.send(formatLiveEvent("all", latest, {}));
          tell(stream, createLook());
          cancelBeat = runtime.setTimer(beat, HEARTBEAT_MS);
        },
        cancel: () => void forget(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: MOST_UNSENT }),
    );
    request.signal.addEventListener("abort", () => end());
    return new Response(body, { headers: { "content-type": EVENT_STREAM, "x-accel-buffering": "no" } });
  }

  const route: Route = { ...APP_ROUTES.followMail, run: open };
  return {
    route,
    /** Looks for changes that another process wrote. */
    look,
    /** Ends every stream. */
    stop(): void {
      stopped = true;
      endAll();
    },
  };
}

/** The page's position: from Last-Event-ID, else `after`, else the latest change; undefined for an invalid one. */
function readPosition(request: Request, latest: number): number | undefined {
  const said = request.headers.get("last-event-id") || new URLSearchParams(urlQuery(request.url)).get("after");
  if (!said) return latest;
  const after = Number(said);
  return Number.isSafeInteger(after) && after >= 0 && after <= latest ? after : undefined;
}
