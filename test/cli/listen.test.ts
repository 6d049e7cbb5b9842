/** `mailroom listen`: events that other processes commit, printed and forwarded (rules: Listening). */
import { expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { createLog } from "../../src/base/log.ts";
import { readConfig } from "../../src/config.ts";
import { type EventData, makeSampleEventData } from "../../src/events/catalogue.ts";
import type { EventName } from "../../src/events/kinds.ts";
import { emitEvent } from "../../src/events/outbox.ts";
import { freePort } from "../../src/net/ip.ts";
import { open } from "../../src/open.ts";
import { atEndOfFile } from "../harness/end.ts";

import { startReceiver } from "../harness/peers/receiver.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { openSetUp, openTerminal, type Said } from "../harness/servers/terminal.ts";
import { whenChanged } from "../harness/until.ts";

const opened = new Set<{ close(): void }>();
atEndOfFile(() => {
  for (const one of opened) one.close();
});

/** A server's data folder, and `mailroom listen` beside it. */
async function startListening(...options: string[]) {
  const { data, ask } = await openSetUp();
  await ask("workspace", "add", "Other");
  const runtime = fakeRuntime();
  const silent = createLog("silent", runtime.now, () => {});
  const folder = open(readConfig({ MAILROOM_DATA: data }), runtime, silent);
  opened.add(folder);
  const { core } = folder;
  const { store } = core;

  let count = 0;
  function happen<E extends EventName>(event: E, { changed = {}, workspace = "acme.test" } = {}): string {
    const id = `evt_${++count}`;
    const data = { ...makeSampleEventData(event, runtime.now()), ...changed } as EventData[E];
    const workspaceId = workspaceAdmin.getWorkspaceByName(core, workspace).id;
    store.transact((tx) => emitEvent(tx, { id, workspaceId, event, data, now: runtime.now() }));
    return id;
  }

  happen("message.inbound", { changed: { subject: "From before" } });
  const { changed, until } = whenChanged();
  const interrupt = Promise.withResolvers<void>();
  let so: Omit<Said, "exitCode"> = { stdout: "", stderr: "" };
  const { say } = openTerminal({
    data,
    interrupted: interrupt.promise,
    written(said) {
      so = said;
      changed();
    },
  });
  const ended = say("listen", ...options);
  await Promise.race([until(() => so.stderr.includes("Listening for events")), ended]);
  return {
    happen,
    lines: () => so.stdout.split("\n").slice(0, -1),
    stderr: () => so.stderr,
    printed: (most: number) => until(() => so.stdout.split("\n").length > most),
    ended,
    stop() {
      interrupt.resolve();
      return ended;
    },
  };
}

test("prints the events from now on, in the order of their commits, and ends with 0", async () => {
  const { happen, printed, lines, stop } = await startListening();
  happen("message.inbound", { changed: { subject: "Lunch\u001b[2J\u009b2J?" } });
  happen("message.bounced");
  happen("message.held");
  await printed(3);
  expect(lines()).toEqual([
    expect.stringMatching(
      /^\d{4}-\S+Z {2}message\.inbound {2}you@example\.com {2}msg_sample {2}Lunch\ufffd\[2J\ufffd2J\?$/,
    ),
    expect.stringMatching(/ {2}message\.bounced {2}you@example\.com {2}msg_sample {2}ada@example\.net$/),
    expect.stringMatching(/ {2}message\.held {2}you@example\.com {2}msg_sample {2}A person approves/),
  ]);
  expect(await stop()).toMatchObject({ exitCode: 0 });
});

test("forwards each once, as a webhook that verifiers accept with the printed secret, and tells what came of it", async () => {
  const receiver = startReceiver();
  receiver.answer = (_, nth) => new Response("", { status: nth === 2 ? 500 : 200 });
  const { happen, printed, lines, stderr, stop } = await startListening("--forward", receiver.url);
  const ids = [happen("message.inbound"), happen("message.delivered"), happen("message.bounced")];
  await printed(3);
  expect(lines()).toEqual([
    expect.stringMatching(/ message\.inbound .* -> 200 \(\d+ ms\)$/),
    expect.stringMatching(/ message\.delivered .* -> answered 500 \(\d+ ms\)$/),
    expect.stringMatching(/ message\.bounced .* -> 200 \(\d+ ms\)$/),
  ]);
  const secret = /signed with the secret (whsec_\S+)\n/.exec(stderr())?.[1] ?? "";
  expect(receiver.hooks.map(({ headers }) => headers.get("x-service-attempt"))).toEqual(["1", "1", "1"]);
  const bodies = receiver.hooks.map(({ body, headers }) =>
    new Webhook(secret).verify(body, Object.fromEntries(headers)),
  );
  expect(bodies).toMatchObject(ids.map((id) => ({ id, data: { mailbox: "you@example.com" } })));
  await stop();
});

test("goes on while nothing answers there", async () => {
  const { happen, printed, lines, stop } = await startListening("--forward", `http://localhost:${await freePort()}/`);
  happen("message.inbound");
  await printed(1);
  happen("message.inbound");
  await printed(2);
  expect(lines()).toEqual(Array(2).fill(expect.stringMatching(/ -> connection refused \(\d+ ms\)$/)));
  await stop();
});

test("--json prints the body of a delivery on each line, with the outcome; --events and --workspace choose", async () => {
  const receiver = startReceiver();
  const options = ["--json", "--events", "message.bounced,message.inbound", "--workspace", "Other"];
  const { happen, printed, lines, stop } = await startListening(...options, "--forward", receiver.url);
  happen("message.bounced");
  happen("message.delivered", { workspace: "Other" });
  const id = happen("message.bounced", { workspace: "Other" });
  await printed(1);
  await stop();
  const [{ forwarded, ...event }, ...others] = lines().map((line) => JSON.parse(line));
  expect(others).toEqual([]);
  expect(forwarded).toEqual({ ok: true, status: 200, ms: expect.any(Number) });
  expect(event).toEqual(JSON.parse(receiver.hooks[0]?.body ?? ""));
  expect(event).toMatchObject({ id, event: "message.bounced" });
  expect(receiver.hooks).toHaveLength(1);
});

test.each([
  [["--forward", "nonsense"], 1, /this is not a URL/],
  [["--forward", "http://169.254.169.254/"], 1, /metadata service/],
  [["--events", "message.read"], 2, /--events is "message\.read": give one of message\.inbound/],
  [["--workspace", "Nowhere"], 1, /there is no workspace Nowhere/],
])("%p is refused", async (options, exitCode, says) => {
  const { ended } = await startListening(...options);
  const said = await ended;
  expect(said).toMatchObject({ exitCode, stdout: "" });
  expect(said.stderr).toMatch(says);
});
