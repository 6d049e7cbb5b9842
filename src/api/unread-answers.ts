/**
 * Bounds the octets of answers that clients have not read yet (rules: Answers): in all, of each workspace, person, and key or
 * session. An answer that has no room waits, and takes no memory meanwhile: if its request only reads, it is composed again. An
 * answer that comes from a file takes no room.
 */
import { AppError } from "../base/errors.ts";
import { collectGarbageSoon, LARGE_BYTES } from "../base/memory.ts";
import type { Runtime } from "../base/runtime.ts";
import { createShares, type Sharer } from "../base/shares.ts";

const MB = 1024 * 1024;
/** Bytes of a small answer, which never waits: the limit of connections bounds their total. */
const SMALL_BYTES = 64 * 1024;
/** Bytes for a key or session. */
const MOST_OF_KEY = 32 * MB;
/** Bytes for a key or session of answers to requests that may have changed something, while they wait. */
const MOST_KEPT_OF_KEY = 4 * MB;
const WAIT_MS = 10_000;
/** Media type of a stream of events, of which little is in memory. */
export const EVENT_STREAM = "text/event-stream";

/** Responses that come from a file, are made while they are read, or share their memory with others. */
const streamed = new WeakSet<Response>();

/** Marks a response whose body is not in memory for it alone. */
export function markStreamedResponse(response: Response): Response {
  streamed.add(response);
  return response;
}

const tooMuchUnread = (): AppError =>
  new AppError("server_error", "Too much of earlier answers is still unread: read those, then ask again", {
    status: 503,
    retryAfter: WAIT_MS / 1_000,
  });

interface Answer {
  response: Response;
  /** Bytes that it has in memory. */
  size: number;
}

async function measured(response: Response): Promise<Answer> {
  const isStream = response.headers.get("content-type") === EVENT_STREAM;
  if (isStream || streamed.has(response)) return { response, size: 0 };
  const body = await response.blob();
  const { status, headers } = response;
  // Without a body there is no Content-Length.
  return { response: new Response(body.size === 0 ? null : body, { status, headers }), size: body.size };
}

/** `most`: bytes in all. */
export function createUnreadAnswerLimit({ most, runtime }: { most: number; runtime: Pick<Runtime, "setTimer"> }) {
  const unread = createShares({ most, mostOfKey: MOST_OF_KEY, runtime });
  const retained = createShares({ most: most / 8, mostOfKey: MOST_KEPT_OF_KEY, runtime });

  return {
    shares: unread,
    /**
     * Gives what `compose` responds to the request of `who`, once there is room for it. `holds` is given what gives the room back, to be
     * called when the client has taken the response, or left. `who` and `compose` are asked again after a wait, if the request only reads.
     * @throws AppError server_error 503 without room in ten seconds, and what `compose` throws
     */
    async give(
      request: Request,
      compose: () => Promise<Response>,
      { who, holds }: { who(): Sharer; holds(release: () => void): void },
    ): Promise<Response> {
      const first = await compose();
      if (request.method === "HEAD") return first;
      const { response, size } = await measured(first);
      if (size <= SMALL_BYTES) return response;
      const held = unread.take(who(), size);
      if (typeof held !== "string") {
        holds(held.release);
        return response;
      }
      return request.method === "GET" ? composeAgain(size) : giveLater({ response, size });

      async function composeAgain(expected: number): Promise<Response> {
        if (expected > LARGE_BYTES) collectGarbageSoon();
        const held = await unread.wait(who(), expected, WAIT_MS, request.signal);
        if (!held) throw tooMuchUnread();
        holds(held.release);
        const { response, size } = await measured(await compose());
        held.change(size);
        return response;
      }

      async function giveLater({ response, size }: Answer): Promise<Response> {
        const keeping = retained.take(who(), size);
        if (typeof keeping === "string") throw tooMuchUnread();
        const held = await unread.wait(who(), size, WAIT_MS, request.signal);
        keeping.release();
        if (!held) throw tooMuchUnread();
        holds(held.release);
        return response;
      }
    },
  };
}
