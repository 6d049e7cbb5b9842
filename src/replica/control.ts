/**
 * How commands reach the standby that runs on their data folder: HTTP over a socket in it, which only its owner can
 * open. An answer is JSON, one document a line.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { StandbyState } from "./standby.ts";

const SOCKET = "standby.sock";
const BEAT_MS = 2_000;

/** A line of the answer to a promotion; `done` or `error` is the last one. */
export type PromotionLine = { step: string } | { done: object } | { error: string };

/** Answers until `stop`. `promote` does it, and says each step. */
export function listenToCommands(
  data: string,
  { state, promote }: { state(): StandbyState; promote(tell: (step: string) => void): Promise<object> },
): { stop(): Promise<void> } {
  const unix = join(data, SOCKET);
  rmSync(unix, { force: true });
  const before = process.umask(0o177);
  try {
    const server = Bun.serve({
      unix,
      fetch(request) {
        const { pathname } = new URL(request.url);
        if (request.method === "GET" && pathname === "/state") return Response.json(state());
        if (request.method !== "POST" || pathname !== "/promote") return new Response(null, { status: 404 });
        return new Response(linesOf(promote));
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

function linesOf(promote: (tell: (step: string) => void) => Promise<object>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      const say = (line: string): void => {
        try {
          controller.enqueue(Buffer.from(`${line}\n`));
        } catch {
          // The command has gone; the promotion goes on.
        }
      };
      const write = (line: PromotionLine): void => say(JSON.stringify(line));
      // Bun ends a connection on which nothing was written for ten seconds.
      const beat = setInterval(say, BEAT_MS, "");
      void promote((step) => write({ step }))
        .then((done) => write({ done }))
        .catch((error) => write({ error: error instanceof Error ? error.message : String(error) }))
        .finally(() => {
          clearInterval(beat);
          controller.close();
        });
    },
  });
}

/** What the running standby of a data folder knows; undefined if none runs there. */
export async function askState(data: string): Promise<StandbyState | undefined> {
  try {
    const response = await fetch("http://standby/state", { unix: join(data, SOCKET) });
    return (await response.json()) as StandbyState;
  } catch {
    return undefined;
  }
}

/**
 * Has the running standby take over. Undefined if none runs. `tell` is called with each step.
 * @throws Error with its refusal
 */
export async function askPromotion(data: string, tell: (step: string) => void): Promise<object | undefined> {
  let response: Response;
  try {
    response = await fetch("http://standby/promote", { unix: join(data, SOCKET), method: "POST" });
  } catch {
    return undefined;
  }
  let end: PromotionLine | undefined;
  try {
    for await (const said of linesIn(response)) {
      end = said;
      if ("step" in said) tell(said.step);
    }
  } catch {
    // The connection was cut off.
  }
  if (end && "done" in end) return end.done;
  if (end && "error" in end) throw new Error(end.error);
  throw new Error("the standby ended before it had taken over: its log says why; start it again, and it goes on");
}

async function* linesIn(response: Response): AsyncGenerator<PromotionLine> {
  let rest = "";
  for await (const chunk of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line) as PromotionLine;
  }
}
