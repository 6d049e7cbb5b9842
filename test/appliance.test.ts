import { expect, test } from "bun:test";
import { connect } from "node:net";
import { boot } from "./harness/appliance.ts";

/** Connects and says whether anybody listens. */
const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

test("stopping, no listener accepts while another finishes what is in flight", async () => {
  const { appliance, mx, http, owner, runtime } = await boot();
  const slow = connect(Number(new URL(http).port), "127.0.0.1");
  slow.on("error", () => {});
  slow.write(
    `PATCH /api/v1/threads/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${owner.apiKey}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
  );
  // In flight: the server waits for the rest of the body, which never comes.
  await fetch(`${http}/healthz`);
  expect(await answers(mx.port)).toBe(true);

  let ended = false;
  const stopped = appliance.stop().then(() => {
    ended = true;
  });
  expect(await answers(mx.port)).toBe(false);
  expect(ended).toBe(false);
  slow.destroy();
  while (!ended) {
    runtime.advanceTo(runtime.now() + 1_000);
    await new Promise(setImmediate);
  }
  await stopped;
});
