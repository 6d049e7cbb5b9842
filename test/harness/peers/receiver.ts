/** A receiver of webhooks on a real socket. It keeps requests and responds as the test says. */
import { atEndOfFile } from "../end.ts";

export interface Hook {
  headers: Headers;
  /** Body as received. */
  body: string;
  path: string;
}

export interface Receiver {
  /** With the path /hook. */
  readonly url: string;
  /** The requests, in order. */
  readonly hooks: Hook[];
  /** Gives the response to each request from now on, 200 by default. `nth`: from 1. */
  answer: (hook: Hook, nth: number) => Response | Promise<Response>;
  /** Resolves when `count` requests have arrived in all. */
  waitFor(count: number): Promise<void>;
  stop(): void;
}

const running = new Set<Receiver>();
atEndOfFile(() => {
  for (const receiver of running) receiver.stop();
});

/** Its address is 127.0.0.1, which webhooks.allowNetworks must allow. */
export function startReceiver(): Receiver {
  const hooks: Hook[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const hook = { headers: request.headers, body: await request.text(), path: new URL(request.url).pathname };
      const nth = hooks.push(hook);
      for (const { count, resolve } of waiting) if (nth >= count) resolve();
      return receiver.answer(hook, nth);
    },
  });
  const receiver: Receiver = {
    url: `http://127.0.0.1:${server.port}/hook`,
    hooks,
    answer: () => new Response("ok"),
    waitFor: (count) =>
      new Promise<void>((resolve) => {
        if (hooks.length >= count) resolve();
        else waiting.push({ count, resolve });
      }),
    stop: () => void server.stop(true),
  };
  running.add(receiver);
  return receiver;
}
