/** The webhook commands, as documents (rules: Commands). */
import { expect, test } from "bun:test";
import { openSetUp } from "../harness/servers/terminal.ts";

const ISO = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);
const URL = "https://hooks.example.com/mail";

const ADD = ["webhook", "add", "--url", URL, "--events", "message.inbound,message.bounced"] as const;

interface Added {
  id: string;
  secret: string;
}

async function openAcme() {
  const terminal = await openSetUp();
  return terminal;
}

test("an endpoint is added, listed and removed", async () => {
  const { ask, say } = await openAcme();
  const added = await ask<Added>(...ADD);
  expect(Object.keys(added).slice(0, 2)).toEqual(["id", "secret"]);
  const { secret, ...listed } = added;
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(listed).toEqual({
    id: expect.stringMatching(/^whk_/),
    url: URL,
    events: ["message.inbound", "message.bounced"],
    state: "active",
    exhausted: 0,
    disabledAt: null,
    workspace: "acme.test",
    createdAt: ISO,
  } as never);
  // One like it is welcome.
  const { id } = await ask<Added>(...ADD);
  expect(await ask<object[]>("webhook", "list")).toMatchObject([listed, { id, url: URL }]);
  expect((await say("webhook", "list")).stdout).not.toContain("whsec_");
  expect(await ask("webhook", "enable", id)).toMatchObject({ id, state: "active" });
  expect(await ask("webhook", "remove", added.id)).toEqual({ id: added.id, url: URL, removed: true });
  expect(await ask<object[]>("webhook", "list")).toMatchObject([{ id }]);
  await ask("workspace", "add", "Beta");
  expect(await ask<object[]>("webhook", "list", "--workspace", "Beta")).toEqual([]);
});

test("an event that is named twice counts once", async () => {
  const { ask } = await openAcme();
  const events = Array<string>(6).fill("message.inbound").join(",");
  const added = await ask<object>("webhook", "add", "--url", URL, "--events", events);
  expect(added).toMatchObject({ events: ["message.inbound"] });
});

const REFUSED: [argv: string[], exitCode: number, says: RegExp][] = [
  [["add", "--url", "http://127.0.0.1/", "--events", "message.inbound"], 1, /127\.0\.0\.1 is .*loopback/],
  [["add", "--url", "http://localhost/", "--events", "message.inbound"], 1, /localhost/],
  [["add", "--url", "ftp://example.com/", "--events", "message.inbound"], 1, /https:\/\/ or http:\/\//],
  [["add", "--url", "example.com", "--events", "message.inbound"], 1, /not a URL/],
  [["add", "--url", URL, "--events", "message.read"], 2, /"message\.read": give one of message\.inbound, message\.out/],
  [["add", "--url", URL], 2, /--events is missing/],
  [["add", "--events", "message.inbound"], 2, /--url is missing/],
  [["test", "whk_none"], 1, /there is no webhook endpoint whk_none/],
  [["enable", "whk_none"], 1, /there is no webhook endpoint whk_none/],
  [["remove", "whk_none"], 1, /there is no webhook endpoint whk_none/],
  [["secret", "whk_none"], 1, /there is no webhook endpoint whk_none/],
  [["deliveries", "whk_none"], 1, /there is no webhook endpoint whk_none/],
  [["deliveries", "whk_none", "--state", "sent"], 2, /give one of pending, retrying, delivered, failed/],
  [["deliveries", "whk_none", "--limit", "0"], 2, /--limit is "0": give a whole number above 0/],
  [["resend", "whd_none"], 1, /there is no webhook delivery whd_none/],
  [["secret", "whk_none", "--overlap", "1"], 2, /--overlap goes with --rotate/],
  [["secret", "whk_none", "--rotate", "--overlap", "long"], 2, /give a number of hours/],
];

test("refusals and their messages", async () => {
  const { say } = await openAcme();
  for (const [argv, exitCode, says] of REFUSED) {
    const said = await say("webhook", ...argv);
    expect([argv, said.exitCode, said.stdout, said.stderr]).toEqual([
      argv,
      exitCode,
      "",
      expect.stringMatching(new RegExp(`^mailroom: .*${says.source}`)),
    ]);
  }
});

test("a secret is shown, and rotated with an overlap or without", async () => {
  const { ask, say } = await openAcme();
  const { id, secret } = await ask<Added>(...ADD);
  expect(await ask("webhook", "secret", id)).toEqual({ id, secret });
  const rotated = await ask<Added & { previousUntil: string }>("webhook", "secret", id, "--rotate");
  const hours = (Date.parse(rotated.previousUntil) - Date.now()) / 3_600_000;
  expect(rotated).toEqual({
    id,
    secret: rotated.secret,
    previousSecret: secret,
    previousUntil: rotated.previousUntil,
  } as never);
  expect(rotated.secret).not.toBe(secret);
  expect(hours).toBeGreaterThan(23.9);
  expect(hours).toBeLessThanOrEqual(24);
  expect(await ask<Added>("webhook", "secret", id)).toEqual(rotated);
  expect((await say("webhook", "secret", id, "--rotate", "--overlap", "0.5")).stderr).toContain(
    "is being rotated until",
  );
  const alone = await ask<Added>("webhook", "secret", id, "--rotate", "--overlap", "0");
  expect(alone).toEqual({ id, secret: expect.stringMatching(/^whsec_/) as never });
});
