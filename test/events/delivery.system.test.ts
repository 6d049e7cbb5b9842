/** Deliveries in a process of its own: the influence of its environment, and its exit. */
import { afterAll, expect, test } from "bun:test";
import { type Answer, receive } from "../harness/peers/raw-receiver.ts";

const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

const SECRET = `whsec_${"A".repeat(43)}=`;
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const ok: Answer = (socket) => void socket.write(OK);

/** The beginning of a program that attempts deliveries with the client of a server: `post(url)`. */
const PROGRAM = `
  import { attemptWebhookDelivery } from ${JSON.stringify(`${import.meta.dir}/../../src/events/delivery.ts`)};
  import { openHttpClient } from ${JSON.stringify(`${import.meta.dir}/../../src/net/http-client.ts`)};
  import { systemRuntime } from ${JSON.stringify(`${import.meta.dir}/../../src/base/runtime.ts`)};
  const runtime = systemRuntime();
  const http = openHttpClient({ runtime, allow: () => ["127.0.0.0/8"], mostIdle: 256 });
  const delivery = { eventId: "evt_1", event: "message.inbound", attempts: 0 };
  const post = (url) => attemptWebhookDelivery({ http, runtime }, { delivery, endpoint: { url, secret: ${JSON.stringify(SECRET)} }, body: "{}" }, 10_000);`;

test("requests ignore proxies that the environment names", async () => {
  const proxy = await receive(ok);
  const receiver = await receive(ok);
  const script = `${PROGRAM}
    console.log(JSON.stringify(await post("http://127.0.0.1:${receiver.port}/")));
    http.close();`;
  const address = `http://127.0.0.1:${proxy.port}`;
  const env = { ...process.env, HTTP_PROXY: address, http_proxy: address, ALL_PROXY: address, NO_PROXY: "" };
  const child = Bun.spawn([process.execPath, "-e", script], { env, stdout: "pipe", stderr: "inherit" });
  expect(JSON.parse(await new Response(child.stdout).text())).toMatchObject({ ok: true, status: 200 });
  expect(receiver.requests).toHaveLength(1);
  expect(proxy.connections.made).toBe(0);
});

test("idle connections let the process exit", async () => {
  const script = `${PROGRAM}
    const { ok } = await post(${JSON.stringify(`http://127.0.0.1:${(await receive(ok)).port}/`)});
    process.on("exit", () => console.log(ok, performance.now() < 3_500));`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  expect(await new Response(child.stdout).text()).toBe("true true\n");
});
