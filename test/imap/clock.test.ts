/** The clock of a server is set while mail apps wait: sessions that may go on do, news is told, and nothing runs in circles. */
import { beforeEach, expect, test } from "bun:test";
import { createAppPassword } from "../../src/access/app-passwords.ts";
import { type ImapAccount, imapAccount, imapStranger } from "../harness/clients/imap-client.ts";
import { type OAuthWorld, startOAuth } from "../harness/servers/oauth.ts";
import { arrive } from "./arrive.ts";

const ALICE = "alice@example.test";
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

let world: OAuthWorld;
beforeEach(async () => {
  world = await startOAuth({}, { MAILROOM_IMAPS: "127.0.0.1:0" });
});

async function idling(app: ImapAccount): Promise<ImapAccount> {
  await app.say("SELECT INBOX");
  app.write("i IDLE\r\n");
  expect(await app.line()).toStartWith("+ ");
  return app;
}

/** Apps that wait: with an app password, a key, and the token of a grant. */
async function waiting() {
  const port = Number(world.ready.imaps?.split(":")[1]);
  const { store } = world.core;
  const { userId, apiKey } = world.owner;
  const { password } = store.transact((tx) =>
    createAppPassword(tx, world.runtime, { userId, name: "Phone", access: "all" }),
  );
  const granted = await imapStranger(port);
  const { access } = await world.letIn();
  const token = Buffer.from(`n,a=${ALICE},\x01auth=Bearer ${access}\x01\x01`, "latin1").toString("base64");
  expect((await granted.say(`AUTHENTICATE OAUTHBEARER ${token}`)).status).toBe("OK");
  return {
    phone: await idling(await imapAccount(port, ALICE, password)),
    program: await idling(await imapAccount(port, ALICE, apiKey)),
    granted: await idling(granted),
  };
}

/** Expects that these apps are told of a message that comes. */
async function expectNews(...apps: ImapAccount[]): Promise<void> {
  await arrive(world, { subject: "News" });
  await world.advance(1_000);
  for (const app of apps) expect(await app.line()).toMatch(/^\* \d+ EXISTS$/);
}

/** Lets a minute pass; returns how often the server had something to do. */
async function roundsOfMinute(): Promise<number> {
  let rounds = 0;
  const { runtime } = world;
  const until = runtime.now() + MINUTE_MS;
  for (let next = runtime.nextTimer(); next !== undefined && next <= until; next = runtime.nextTimer()) {
    await world.advance(Math.max(0, next - runtime.now()));
    rounds++;
  }
  return rounds;
}

test.each([
  ["ahead by a day", 24 * HOUR_MS],
  ["back by an hour", -HOUR_MS],
])("set %s", async (_, by) => {
  const { phone, program, granted } = await waiting();
  await expectNews(phone, program, granted);
  const usual = await roundsOfMinute();
  world.runtime.setBy(by);
  await world.advance(1_000);
  if (by > 0) {
    // The hour of its token is over.
    expect(await granted.line()).toBe("* BYE Sign in again");
    await expectNews(phone, program);
  } else await expectNews(phone, program, granted);
  expect(await roundsOfMinute()).toBeLessThan(1.2 * usual);
  // A session ends after 31 minutes of silence, not by the clock.
  await world.advance(28 * MINUTE_MS);
  for (const app of [phone, program]) {
    app.write("DONE\r\n");
    expect(await app.line()).toStartWith("i OK ");
    expect((await app.say("NOOP")).status).toBe("OK");
  }
  world.runtime.setBy(-by);
  await world.advance(31 * MINUTE_MS + 1_000);
  expect(await phone.line()).toStartWith("* BYE ");
  expect(await phone.line()).toBeUndefined();
});
