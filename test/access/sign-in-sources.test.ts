/** Sources from which somebody signed in: remembered for 30 days, and preferred where passwords are checked. */
import { expect, test } from "bun:test";
import { forgetOldSignInSources, isKnownSignInSource, noteSignInSource } from "../../src/access/sign-in-sources.ts";
import { createConcurrencyLimits } from "../../src/access/slowdown.ts";
import { signInSources } from "../../src/store/schema.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { START } from "../harness/runtime.ts";
import { boot } from "../harness/servers/boot.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";
import { until } from "../harness/until.ts";

const DAY = 24 * 60 * 60_000;

function setUp() {
  const { core } = createAlice();
  const rows = () => core.db.select().from(signInSources).all();
  return { core, rows, isKnown: (source: string) => isKnownSignInSource(core, source) };
}

test("a source is known for 30 days after a sign-in", async () => {
  const { core, rows, isKnown } = setUp();
  const { runtime } = core;
  expect(isKnown("192.0.2.1")).toBe(false);
  noteSignInSource(core, "192.0.2.1");
  await until(() => rows().length === 1);
  expect([isKnown("192.0.2.1"), isKnown("192.0.2.2")]).toEqual([true, false]);
  runtime.advanceTo(START + DAY - 1);
  noteSignInSource(core, "192.0.2.1");
  runtime.advanceTo(START + 30 * DAY - 1);
  expect(isKnown("192.0.2.1")).toBe(true);
  runtime.advanceTo(START + 30 * DAY);
  expect(isKnown("192.0.2.1")).toBe(false);
  await forgetOldSignInSources(core).runDue(runtime.now());
  expect(rows()).toEqual([]);
});

test("of too many, those are forgotten from which nobody signed in for longest", async () => {
  const { core, rows } = setUp();
  const all = [3, 1, 2].map((day) => ({ source: `192.0.2.${day}`, signedInAt: START - 10 * DAY + day }));
  core.db.insert(signInSources).values(all).run();
  await forgetOldSignInSources(core, 2).runDue(START);
  expect(rows().map(({ source }) => source)).toEqual(["192.0.2.2", "192.0.2.3"]);
});

test("a mail app that signs in makes its source known, one that fails does not", async () => {
  const { core, ready, owner } = await boot({});
  const rows = () => core.store.db.select().from(signInSources).all();
  const port = Number(ready.submission.split(":")[1]);
  const signIn = async (from: string, secret: string) => {
    const client = await connectSmtp({ host: "127.0.0.1", port }, { from });
    await client.expect(220, "STARTTLS");
    await client.secure();
    await client.expect(250, "EHLO client.example");
    const { code } = await client.command(`AUTH PLAIN ${btoa(`\0alice@example.test\0${secret}`)}`);
    client.destroy();
    return code;
  };
  expect(await signIn("127.0.0.3", "wrong")).toBe(535);
  expect(await signIn("127.0.0.2", owner.apiKey)).toBe(235);
  await until(() => rows().length > 0);
  expect(rows()).toEqual([{ source: "127.0.0.2", signedInAt: START }]);
});

test("strangers leave a part of the queue to known callers, who go first", async () => {
  const slots = createConcurrencyLimits({ atOnce: 1, mostWaiting: 4, reserved: 1 });
  const done: string[] = [];
  const first = Promise.withResolvers<void>();
  const within = (name: string, isKnown: boolean) =>
    slots
      .within("", async () => void done.push(name), isKnown)
      .catch((error) => void done.push(`${name}: ${error.code}`));
  const running = slots.within("", () => first.promise);
  const waiting = [1, 2, 3, 4].map((n) => within(`stranger ${n}`, false));
  waiting.push(within("known 1", true), within("known 2", true));
  await until(() => done.length === 2);
  expect(done.splice(0)).toEqual(["stranger 4: rate_limited", "known 2: rate_limited"]);
  first.resolve();
  await Promise.all([running, ...waiting]);
  expect(done).toEqual(["known 1", "stranger 1", "stranger 2", "stranger 3"]);
});
