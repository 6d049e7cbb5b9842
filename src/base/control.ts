/**
 * How commands reach the process that runs on their data folder: HTTP over a socket in it, which only its owner can
 * open. A request is POST with a JSON document; an answer is JSON, one document a line.
 */
import { rmSync } from "node:fs";

const BEAT_MS = 2_000;
/** Longest request, bytes. */
const LONGEST = 64 * 1024;

/** Does what is asked, and calls `tell` with each step. Resolves with the answer. @throws Error with the refusal */
export type Handler = (request: Readonly<Record<string, unknown>>, tell: (step: string) => void) => Promise<object>;

/** A line of an answer; `done` or `error` is the last one. */
type Line = { step: string } | { done: object } | { error: string };

/** Answers at the socket `unix` until `stop`. `handlers`: by the name of what is asked. @throws Error when it cannot listen */
export function listenToCommands(unix: string, handlers: Readonly<Record<string, Handler>>): { stop(): Promise<void> } {
  rmSync(unix, { force: true });
  const before = process.umask(0o177);
  try {
    const server = Bun.serve({
      unix,
      maxRequestBodySize: LONGEST,
      async fetch(request) {
        const name = new URL(request.url).pathname.slice(1);
        const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
        if (request.method !== "POST" || !handler) return new Response(null, { status: 404 });
        const asked = (await request.json()) as Record<string, unknown>;
        return new Response(streamWorkLines((tell) => handler(asked, tell)));
      },
    });
    return {
      async stop() {
        await server.stop();
        rmSync(unix, { force: true });
      },
    };
  } finally {
    process.umask(before);
  }
}

function streamWorkLines(work: (tell: (step: string) => void) => Promise<object>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      const say = (line: string): void => {
        try {
          controller.enqueue(Buffer.from(`${line}\n`));
        } catch {
          // The command has gone; the work goes on.
        }
      };
      const write = (line: Line): void => say(JSON.stringify(line));
      // Bun ends a connection on which nothing was written for ten seconds.
      const beat = setInterval(say, BEAT_MS, "");
      void work((step) => write({ step }))
        .then((done) => write({ done }))
        .catch((error) => write({ error: error instanceof Error ? error.message : String(error) }))
        .finally(() => {
          clearInterval(beat);
          controller.close();
        });
    },
  });
}

/**
 * Asks the process that listens at `unix`. Undefined if none does. `tell` is called with each step.
 * @throws Error with its refusal, or with `broken` when it ended before its answer
 */
export async function askProcess<Answer extends object>(
  unix: string,
  name: string,
  {
    request = {},
    tell = () => {},
    broken,
  }: { request?: object; tell?: ((step: string) => void) | undefined; broken: string },
): Promise<Answer | undefined> {
  let response: Response;
  try {
    response = await fetch(`http://process/${name}`, { unix, method: "POST", body: JSON.stringify(request) });
  } catch {
    return undefined;
  }
  let end: Line | undefined;
  try {
    for await (const said of linesIn(response)) {
      end = said;
      if ("step" in said) tell(said.step);
    }
  } catch {
    // The connection was cut off.
  }
  if (end && "done" in end) return end.done as Answer;
  throw new Error(end && "error" in end ? end.error : broken);
}

async function* linesIn(response: Response): AsyncGenerator<Line> {
  let rest = "";
  for await (const chunk of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line) as Line;
  }
}
