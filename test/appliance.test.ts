import { expect, test } from "bun:test";
import { connect } from "node:net";
import { createAppliance } from "../src/appliance.ts";
import { createLog } from "../src/base/log.ts";
import { readConfig } from "../src/config.ts";
import { boot } from "./harness/appliance.ts";
import { temporaryFolder } from "./harness/folder.ts";
import { fakeRuntime } from "./harness/runtime.ts";
import { settle } from "./harness/settle.ts";

/** True if a server listens at the address. */
const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

test("while stopping, no listener accepts, and requests in flight are finished", async () => {
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

test("the server follows a command's changes within 2 s", async () => {
  const runtime = fakeRuntime();
  const data = temporaryFolder();
  const off = { MAILROOM_HTTP: "off", MAILROOM_MX: "off", MAILROOM_SUBMISSION: "off", MAILROOM_SUBMISSIONS: "off" };
  const log = createLog("silent", runtime.now, () => {});
  const appliance = createAppliance(readConfig({ MAILROOM_DATA: data, ...off }), runtime, log);
  await appliance.start();
  settle({ data }, { "api.keyRequestsPerMinute": "4711" });
  expect(appliance.options.get("api.keyRequestsPerMinute")).not.toBe(4711);
  runtime.advanceTo(runtime.now() + 2_000);
  await appliance.settled();
  expect(appliance.options.get("api.keyRequestsPerMinute")).toBe(4711);
  await appliance.stop(0);
});
