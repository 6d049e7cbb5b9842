/** The webhook commands beside a server that is stopped and then runs (rules: Commands). */
import { expect, test } from "bun:test";
import { startReceiver } from "../harness/peers/receiver.ts";
import { serve } from "../harness/servers/process.ts";
import { openTerminal, SETUP } from "../harness/servers/terminal.ts";
import { until } from "../harness/until.ts";

const ISO = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);

interface Added {
  id: string;
  secret: string;
}

async function openAcme() {
  const terminal = openTerminal();
  await terminal.ask(...SETUP, "--workspace", "Acme");
  return terminal;
}

test("a test and a resend wait for the server, which follows within two seconds", async () => {
  const { ask, data, say } = await openAcme();
  const receiver = startReceiver();
  await ask("settings", "set", "webhooks.allowNetworks", "127.0.0.0/8");
  const { id } = await ask<Added>("webhook", "add", "--url", receiver.url, "--events", "message.inbound");
  const test = await ask<{ id: string; eventId: string }>("webhook", "test", id, "--event", "message.complaint");
  expect(test).toEqual({
    id: expect.stringMatching(/^whd_/),
    webhook: id,
    event: "message.complaint",
    eventId: expect.stringMatching(/^evt_/),
    state: "pending",
  } as never);
  const pending = {
    id: test.id,
    event: "message.complaint",
    eventId: test.eventId,
    test: true,
    state: "pending",
    attempts: 0,
    attempting: false,
    nextAttemptAt: ISO,
    status: null,
    response: null,
    error: null,
    createdAt: ISO,
    finishedAt: null,
  };
  expect(await ask<object[]>("webhook", "deliveries", id)).toEqual([pending]);
  expect(await ask<object[]>("webhook", "deliveries", id, "--state", "failed")).toEqual([]);

  const server = await serve({ data });
  await receiver.waitFor(1);
  expect(receiver.hooks[0]?.headers.get("x-service-delivery")).toBe(test.eventId);
  await ask("webhook", "test", id);
  await receiver.waitFor(2);
  expect(receiver.hooks[1]?.headers.get("x-service-event")).toBe("message.inbound");
  expect(await ask("webhook", "resend", test.id)).toMatchObject({ id: test.id, nextAttemptAt: ISO });
  await receiver.waitFor(3);
  expect(receiver.hooks[2]?.headers.get("x-service-attempt")).toBe("2");
  expect(receiver.hooks[2]?.body).toBe(receiver.hooks[0]?.body as string);
  const delivered = { state: "delivered", status: 200, response: "ok", finishedAt: ISO, nextAttemptAt: null };
  const log = () => ask<{ attempts: number }[]>("webhook", "deliveries", id, "--state", "delivered");
  // Commands of this process leave it no turn to answer the server by themselves.
  await until(async () => (await log())[1]?.attempts === 2);
  expect(await log()).toMatchObject([
    { event: "message.inbound", attempts: 1 },
    { ...pending, ...delivered, attempts: 2 },
  ]);
  expect((await say("webhook", "deliveries", id, "--limit", "1")).stdout).toMatch(
    /message\.inbound +delivered +1 +200/,
  );
  // How long the log is kept is followed too.
  await ask("settings", "set", "retention.deliveryLogDays", "0.00001");
  await until(async () => (await log()).length === 0);
  expect(await server.kill("SIGTERM")).toBe(0);
});
