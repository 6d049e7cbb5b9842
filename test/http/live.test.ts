/**
 * The server drops streams of events when a page does not read, or the store cannot be read, and leaves nothing behind.
 */
import { expect, test } from "bun:test";
import { type BrowserSession, findSession, startSession } from "../../src/access/sessions.ts";
import type { Log } from "../../src/base/log.ts";
import { createLiveUpdates } from "../../src/http/live.ts";
import { createSessionCookie } from "../../src/http/session-cookie.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

const HEARTBEAT_MS = 25_000;

/** Opens a stream that its page does not read. */
function listen() {
  const { store, runtime, ...world } = createWorld();
  const { userId } = world.user(world.workspace("W", "example.test"), "ada@example.test", "owner");
  const given = { userId, userAgent: "", source: "", persistent: true };
  const { token } = store.transact((tx) => startSession(tx, runtime, given));
  const session = findSession(store.db, token, runtime.now()) as BrowserSession;
  const cookie = createSessionCookie({ secure: false });
  const warnings: string[] = [];
  const log: Log = { ...world.core.log, warn: (text) => void warnings.push(text) };
  const live = createLiveUpdates({ ...world.core, log }, cookie);
  const before = runtime.timers().length;
  const request = new Request("http://localhost/app/live", { headers: { cookie: cookie.give(token, true) } });
  const open = () =>
    live.route.run({
      request,
      params: {},
      session,
      requireSession: () => session,
    });
  open();
  return {
    store,
    live,
    warnings,
    open,
    beat: () => runtime.advanceTo(runtime.now() + HEARTBEAT_MS),
    timers: () => runtime.timers().length - before,
  };
}

test("a page that does not read heartbeats is dropped, and its timer ends", () => {
  const { beat, timers } = listen();
  expect(timers()).toBe(1);
  for (let beats = 0; beats < 3_500; beats++) beat();
  expect(timers()).toBe(0);
});
