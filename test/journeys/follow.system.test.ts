/**
 * Commands work beside a running server, which follows within 2 s (rules: Settings), and a first day:
 * people, mailboxes, shares and keys come and go, mail arrives, and the API tells each key what its person may see.
 */
import { expect, test } from "bun:test";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";

/** Asks until `accept` is content; the two seconds are held in test/serve.test.ts, on its clock. */
async function until<T>(ask: () => Promise<T>, accept: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (accept(answer)) return answer;
    // So that asking does not use up the rate.
    await Bun.sleep(20);
  }
}

test("a first day", async () => {
  const place = { data: temporaryFolder() };
  const owner = await runJson<{ apiKey: string; mailboxId: string }>(
    place,
    "setup",
    "--domain",
    "example.test",
    "--email",
    "alice@example.test",
    "--name",
    "Alice",
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  const server = await serve(place);
  const alice = apiClient(server.http, owner.apiKey);
  const sender = mailer(server.mx);
  const refusalOf = (to: string): Promise<string> =>
    sender.send({ from: "carol@remote.example", to }, letter({ to })).then(
      () => "accepted",
      (error: { response: string }) => error.response.slice(0, 9),
    );

  // Settings are followed: the source's rate is what the headers say.
  await run(place, ["settings", "set", "api.ipRequestsPerMinute", "100000"]);
  await run(place, ["settings", "set", "api.keyRequestsPerMinute", "5000"]);
  const rated = await until(
    () => alice.get("/mailboxes"),
    (answer) => answer.headers.get("x-ratelimit-limit") === "5000",
  );
  expect(rated.headers.get("x-ratelimit-limit")).toBe("5000");

  // A new person has a mailbox that takes mail; an alias and a catch-all too.
  expect(await refusalOf("bob@example.test")).toBe("550 5.1.1");
  await runJson(place, "user", "add", "bob@example.test", "--name", "Bob", "--role", "member");
  expect(await refusalOf("bob@example.test")).toBe("accepted");
  await run(place, ["mailbox", "alias", "bob@example.test", "add", "sales@example.test"]);
  expect(await refusalOf("Sales+spring@Example.TEST")).toBe("accepted");

  // His key reaches his mailbox only, until Alice shares hers.
  const key = await runJson<{ id: string; key: string }>(
    place,
    "key",
    "create",
    "--user",
    "bob@example.test",
    "--name",
    "Bob's",
    "--scopes",
    "read",
  );
  const bob = apiClient(server.http, key.key);
  const boxes = async () =>
    (await bob.get<{ mailboxes: { address: string; source: string }[] }>("/mailboxes")).body.mailboxes;
  expect((await boxes()).map(({ address, source }) => [address, source])).toEqual([["bob@example.test", "owner"]]);
  await run(place, ["mailbox", "grant", "alice@example.test", "--to", "bob@example.test", "--access", "view"]);
  expect((await boxes()).map(({ address, source }) => [address, source]).sort()).toEqual([
    ["alice@example.test", "grant"],
    ["bob@example.test", "owner"],
  ]);
  const threads = (await bob.get<{ threads: { receivedOn: string }[] }>("/threads?mailbox=bob@example.test")).body
    .threads;
  expect(threads.map((thread) => thread.receivedOn).sort()).toEqual(["bob@example.test", "sales@example.test"]);

  // Quotas and sizes are followed by the listener.
  await run(place, ["mailbox", "quota", "bob@example.test", "10"]);
  expect(await refusalOf("bob@example.test")).toBe("452 4.2.2");

  // A revoked key and a removed person's key are 401 at once; the mailbox stays.
  await run(place, ["key", "revoke", key.id]);
  expect((await bob.get("/mailboxes")).status).toBe(401);
  const second = await runJson<{ key: string }>(
    place,
    "key",
    "create",
    "--user",
    "bob@example.test",
    "--name",
    "Another",
    "--scopes",
    "read",
  );
  expect((await apiClient(server.http, second.key).get("/mailboxes")).status).toBe(200);
  await run(place, ["user", "remove", "bob@example.test"]);
  expect((await apiClient(server.http, second.key).get("/mailboxes")).status).toBe(401);
  const left = (await alice.get<{ mailboxes: { address: string; source: string }[] }>("/mailboxes")).body.mailboxes;
  expect(left.map(({ address, source }) => [address, source])).toContainEqual(["bob@example.test", "admin"]);

  // A second server on the same data folder is refused, and the first goes on.
  const { exitCode, stdout, stderr } = await run(place, ["serve"]);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("another server runs on the data folder");
  expect(await refusalOf("alice@example.test")).toBe("accepted");

  sender.close();
  expect(await server.kill("SIGINT")).toBe(0);
}, 300_000);
