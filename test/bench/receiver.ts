/**
 * A receiver of webhooks in a process of its own, which prints its port. `/hook` answers at once, `/dead` never; GET gives
 * how many came to /hook, and when, as epoch ms: the first, the last, and the median delay of mail since it was filed.
 */
import { median } from "./figures.ts";

let first = 0;
let last = 0;
let count = 0;
let delays: number[] = [];

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/dead") return new Promise<Response>(() => {});
    if (pathname === "/stats") return Response.json({ count, first, last, delay: delays.length ? median(delays) : 0 });
    if (pathname === "/reset") {
      [first, last, count, delays] = [0, 0, 0, []];
      return new Response();
    }
    const now = performance.timeOrigin + performance.now();
    if (count++ === 0) first = now;
    last = now;
    const { data } = (await request.json()) as { data: { receivedAt?: string } };
    if (data.receivedAt) delays.push(now - Date.parse(data.receivedAt));
    return new Response("ok");
  },
});
console.log(server.port);
