/** News for a page that takes none: its stream is let go, and nothing of it is left behind. */
import { expect, test } from "bun:test";
import { findSession, type Session, startSession } from "../../src/access/sessions.ts";
import { createLive } from "../../src/web/live.ts";
import { createSessionCookie } from "../../src/web/session-cookie.ts";
import { createWorld } from "../mailbox/world.ts";

const HEARTBEAT_MS = 25_000;

test("a page that takes not even heartbeats is let go, and beats no more", () => {
  const world = createWorld();
  const { store, runtime } = world;
  const { userId } = world.user(world.workspace("W", "example.test"), "ada@example.test", "owner");
  const given = { userId, userAgent: "", source: "", kept: true };
  const { token } = store.transact((tx) => startSession(tx, runtime, given));
  const session = findSession(store.db, token, runtime.now()) as Session;
  const cookie = createSessionCookie({ secure: false });
  const live = createLive({ store, cookie, runtime });
  const before = runtime.timers().length;

  const request = new Request("http://localhost/app/live", { headers: { cookie: cookie.give(token, true) } });
  live.route.run({ request, params: {}, session, source: "" });
  expect(runtime.timers().length).toBe(before + 1);
  for (let beats = 0; beats < 600; beats++) runtime.advanceTo(runtime.now() + HEARTBEAT_MS);
  expect(runtime.timers().length).toBe(before);
});
