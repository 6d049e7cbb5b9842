/** A clock that was ahead by a day: sending, retries and webhooks continue once it is set right. */
import { describe, expect, test } from "bun:test";
import * as developers from "../src/admin/developers.ts";
import * as domains from "../src/admin/domains.ts";
import { makeDkimKeys } from "../src/admin/domains.ts";
import * as people from "../src/admin/people.ts";
import * as workspaceAdmin from "../src/admin/workspace-admin.ts";
import { createLog } from "../src/base/log.ts";
import { readConfig } from "../src/config.ts";
import { open } from "../src/open.ts";
import { serve } from "../src/serve.ts";
import { MAIL_SCOPES } from "../src/store/schema.ts";
import { apiClient } from "./harness/clients/api.ts";
import { atEndOfFile } from "./harness/end.ts";
import { temporaryFolder } from "./harness/folder.ts";
import { zone } from "./harness/peers/dns-server.ts";
import { startReceiver } from "./harness/peers/receiver.ts";
import { deliverTo, startRemoteMx } from "./harness/peers/remote-mx.ts";
import { fakeRuntime } from "./harness/runtime.ts";
import { shareParser } from "./harness/servers/parser.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const keys = makeDkimKeys();

/** A server with a database on disk and a clock that can be set, with its peers. */
async function createWorld() {
  const remote = await startRemoteMx();
  const receiver = startReceiver();
  const runtime = fakeRuntime({
    dns: zone({ "out.example": { mx: [[10, "mx.out.example"]] }, "mx.out.example": { a: ["127.0.0.1"] } }),
  });
  const env = { MAILROOM_DATA: temporaryFolder(), MAILROOM_HTTP: "127.0.0.1:0", MAILROOM_MX: "off" };
  const config = readConfig({ ...env, MAILROOM_SUBMISSION: "off", MAILROOM_SUBMISSIONS: "off" });
  const lines: Record<string, unknown>[] = [];
  const log = createLog("info", runtime.now, (line) => lines.push(JSON.parse(line)));
  let apiKey = "";

  async function start() {
    const opened = open(config, runtime, log, { doctor: { checks: {} } });
    const { core } = opened;
    const { store, options } = core;
    if (apiKey === "") {
      const dkim = await keys;
      store.transact((tx) => options.set(tx, "webhooks.allowNetworks", "127.0.0.0/8"));
      store.transact((tx) => {
        const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, "Example");
        domains.markDomainVerified(core, tx, domains.addDomain(core, tx, workspaceId, "example.test", dkim).id);
        const alice = {
          workspaceId,
          email: "alice@example.test",
          name: "Alice",
          role: "owner",
          ownMailbox: true,
        } as const;
        const { userId } = people.addUser(core, tx, alice);
        apiKey = developers.createKey(core, tx, { userId, name: "Tests", scopes: MAIL_SCOPES }).key;
        developers.addWebhook(core, tx, { workspaceId, url: receiver.url, events: ["message.delivered"] });
        options.set(tx, "sending.mailboxPerHour", "4");
      });
      deliverTo(remote, opened.core);
    }
    const server = await serve(opened, { startParser: shareParser });
    atEndOfFile(() => server.stop(0).catch(() => {}));
    const api = apiClient(`http://${server.ready.http}`, apiKey);
    return {
      core: opened.core,
      server,
      api,
      send: (to: string) =>
        api.post<{ emailId?: string }>("/send", { from: "alice@example.test", to: [to], subject: "Hi", text: "Text" }),
      advance: async (ms: number) => {
        runtime.advanceTo(runtime.now() + ms);
        await server.settled();
      },
    };
  }
  return { remote, receiver, runtime, lines, start };
}

describe.each(["while it runs", "while it is stopped"])("a clock a day ahead that is set right %s", (when) => {
  test("leaves no retry, webhook or limit waiting for that day", async () => {
    const { remote, receiver, runtime, lines, start } = await createWorld();
    remote.script({
      rcpt: ({ address, attempt }) => (address.startsWith("late") && attempt < 3 ? "450 4.2.0 later" : undefined),
    });
    receiver.answer = () => new Response("", { status: 500 });
    let server = await start();
    // Sent before the clock leaps, so that the limit counts both times.
    expect((await server.send("first@out.example")).status).toBe(202);
    await server.server.settled();
    expect(receiver.hooks).toHaveLength(1);

    runtime.setBy(DAY_MS);
    await server.advance(2_000);
    expect((await server.send("late@out.example")).status).toBe(202);
    expect((await server.send("second@out.example")).status).toBe(202);
    await server.server.settled();
    await server.advance(5 * MINUTE_MS);
    expect(remote.messages.map(({ to }) => to[0])).toEqual(["first@out.example", "second@out.example"]);
    const before = receiver.hooks.length;

    receiver.answer = () => new Response("ok");
    if (when === "while it is stopped") await server.server.stop(0);
    runtime.setBy(-DAY_MS);
    if (when === "while it is stopped") server = await start();
    await server.advance(2_000);
    expect(remote.messages.map(({ to }) => to[0])).toEqual([
      "first@out.example",
      "second@out.example",
      "late@out.example",
    ]);
    // The webhooks of the two refused events, and of the new one.
    const told = receiver.hooks.slice(before).map(({ headers }) => headers.get("webhook-id"));
    expect(new Set(told).size).toBe(3);

    expect((await server.send("third@out.example")).status).toBe(202);
    await server.server.settled();
    expect(remote.messages).toHaveLength(4);
    const refused = await server.send("fourth@out.example");
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeLessThanOrEqual(HOUR_MS / 1_000);
    await server.advance(HOUR_MS);
    expect((await server.send("fourth@out.example")).status).toBe(202);
    if (when === "while it runs")
      expect(lines.map(({ message }) => message)).toContain("the clock was set back: looking at everything anew");
  });
});

test("mail sent by a clock a day ahead counts for the warm-up of the day it was sent on, and of no other", async () => {
  const { runtime, start } = await createWorld();
  const { core, server, send, advance } = await start();
  const { store, options } = core;
  store.transact((tx) => options.set(tx, "sending.warmup", "3,3,3"));
  const sent = async (count: number) => {
    const answers = [];
    for (let i = 0; i < count; i++) answers.push((await send("ann@out.example")).status);
    await server.settled();
    return answers;
  };
  expect(await sent(1)).toEqual([202]);
  runtime.setBy(DAY_MS);
  await advance(2_000);
  expect(await sent(2)).toEqual([202, 202]);
  runtime.setBy(-DAY_MS);
  await advance(2_000);
  expect(await sent(1)).toEqual([429]);
  await advance(DAY_MS);
  expect(await sent(4)).toEqual([202, 202, 202, 429]);
});

test.each(["while it runs", "while it is stopped"])(
  "a clock that leaps ahead by forty days %s has nothing deleted by age before it is set right",
  async (when) => {
    const { runtime, start } = await createWorld();
    let server = await start();
    const { store, options } = server.core;
    store.transact((tx) => options.set(tx, "retention.trashDays", "30"));
    await server.send("alice@example.test");
    await server.server.settled();
    const { body } = await server.api.get<{ messages: { id: string; threadId: string }[] }>("/messages");
    const [message] = body.messages;
    if (!message) throw new Error("it did not arrive");
    await server.api.patch(`/threads/${message.threadId}`, { folder: "trash" });
    await server.advance(2 * HOUR_MS);
    const isThere = async () => (await server.api.get(`/messages/${message.id}`)).status === 200;

    if (when === "while it is stopped") await server.server.stop(0);
    runtime.setBy(40 * DAY_MS);
    if (when === "while it is stopped") server = await start();
    for (let minutes = 0; minutes < 50; minutes += 10) {
      await server.advance(10 * MINUTE_MS);
      expect(await isThere()).toBe(true);
    }
    runtime.setBy(-40 * DAY_MS);
    for (let hours = 0; hours < 5; hours++) await server.advance(HOUR_MS);
    expect(await isThere()).toBe(true);
    for (let days = 0; days < 31; days++) await server.advance(DAY_MS);
    expect(await isThere()).toBe(false);
  },
);
