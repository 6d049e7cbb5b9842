/** Links to choose a password, and locks, from the command line beside a running server: what is open there ends, too. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { apiClient } from "../harness/clients/api.ts";
import { page, signInOnly } from "../harness/clients/browser-session.ts";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { imapsOf, run, runJson, serve } from "../harness/servers/process.ts";

setDefaultTimeout(300_000);

const BOB = "bob@acme.test";
const PASSWORD = "correct horse battery staple";

test("an invitation and a lock beside a running server", async () => {
  const place = {
    data: temporaryFolder(),
    env: { MAILROOM_IMAPS: "127.0.0.1:0", MAILROOM_BASE_URL: "https://mail.acme.test" },
  };
  await run(place, ["setup", "--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada"]);
  const bob = await runJson<{ id: string }>(place, "user", "add", BOB, "--name", "Bob", "--role", "member");
  const { key } = await runJson<{ key: string }>(
    place,
    "key",
    "create",
    "--user",
    BOB,
    "--name",
    "K",
    "--scopes",
    "read",
  );
  const server = await serve(place);
  const { http } = server;

  const former = await runJson<{ link: string }>(place, "user", "invite", BOB);
  const made = await runJson<{ link: string }>(place, "user", "invite", BOB);
  expect(made).toEqual({
    ...{ id: bob.id, address: BOB, link: expect.stringMatching(/^https:\/\/mail\.acme\.test\/password#\w{43}$/) },
    expiresAt: expect.stringMatching(/Z$/),
  } as never);
  expect((await run(place, ["user", "invite", BOB])).stdout).toMatch(
    /^link: https:\/\/mail\.acme\.test\/password#\w{43}$/m,
  );
  const { link } = await runJson<{ link: string }>(place, "user", "invite", BOB);
  const choose = async (link: string) => {
    const given = { token: link.split("#")[1], password: PASSWORD };
    return (await page({ http }).send("POST", "/password-link", given)).status;
  };
  expect([await choose(former.link), await choose(made.link), await choose(link)]).toEqual([403, 403, 204]);

  // Over the API it is mailed, at once.
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  const admin = await runJson<{ key: string }>(
    place,
    "key",
    "create",
    "--user",
    "ada@acme.test",
    "--name",
    "A",
    "--scopes",
    "admin,read",
  );
  const api = apiClient(http, admin.key);
  const asked = await fetch(`${http}/api/admin/v1/people/${bob.id}/invite`, {
    method: "POST",
    headers: { authorization: `Bearer ${admin.key}`, "content-type": "application/json" },
    body: JSON.stringify({ inviteTo: "ada@acme.test" }),
  });
  expect(asked.status).toBe(200);
  const { messages } = (
    await api.get<{ messages: { id: string }[] }>(
      `/messages?from=postmaster@acme.test&waitSeconds=30&after=${new Date(Date.now() - 3_600_000).toISOString()}`,
    )
  ).body;
  const [{ id } = { id: "none" }] = messages;
  const { text } = (await api.get<{ message: { text: string } }>(`/messages/${id}`)).body.message;
  expect(text).toMatch(/^https:\/\/mail\.acme\.test\/password#\w{43}$/m);

  const session = await signInOnly({ http } as never, BOB);
  const live = ((await session.fetch("/live")).body as ReadableStream<Uint8Array>).getReader();
  await live.read();
  const imap = await imapAccount(imapsOf(server), BOB, `"${PASSWORD}"`);
  await imap.say("SELECT INBOX");
  imap.write("i IDLE\r\n");
  expect(await imap.line()).toStartWith("+ ");
  const waits = fetch(`${http}/api/v1/messages?waitSeconds=50&after=2099-01-01T00:00:00Z`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const since = performance.now();
  expect(await runJson(place, "user", "lock", BOB)).toMatchObject({
    ...{ id: bob.id, address: BOB, locked: true },
    ended: { sessions: [{}], keys: [{ name: "K" }], appPasswords: [], grants: [], forwarding: [] },
  });
  for (let line = await imap.line(); line !== undefined; line = await imap.line()) expect(line).toStartWith("* BYE");
  while (!(await live.read()).done);
  expect((await waits).status).toBe(401);
  // A heartbeat of the live page is 25 s, the wait was for 50.
  expect(performance.now() - since).toBeLessThan(20_000);
  expect(await runJson<object[]>(place, "user", "list")).toMatchObject([
    {},
    { address: BOB, locked: true, canSignIn: false },
  ]);

  const again = await run(place, ["user", "invite", BOB]);
  expect([again.exitCode, again.stderr]).toEqual([1, `mailroom: ${BOB} is locked: unlock them first\n`]);
  expect((await run(place, ["user", "lock", "ada@acme.test"])).stderr).toContain("is the last owner of the workspace");
  expect(await runJson(place, "user", "unlock", BOB)).toMatchObject({ locked: false, canSignIn: true });
  await signInOnly({ http } as never, BOB);
  expect(await server.kill("SIGTERM")).toBe(0);
});
