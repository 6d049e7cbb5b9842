/** Bounds on what programs leave behind (rules: OAuth clients, OAuth tokens). */
import { expect, test } from "bun:test";
import { startOAuth } from "../harness/servers/oauth.ts";

test("of 100 programs of a network that nobody let in, its oldest makes room, and never another's", async () => {
  const world = await startOAuth({}, { MAILROOM_TRUSTED_PROXIES: "127.0.0.1/32" });
  const { clientId: used } = await world.letIn();
  const { $client: sqlite } = world.core.store.db;
  const from = async (address: string) => {
    const headers = { "content-type": "application/json", "x-forwarded-for": address };
    const body = JSON.stringify({ client_name: "App", redirect_uris: ["https://app.example/callback"] });
    const answer = await fetch(`${world.origin}/oauth/register`, { method: "POST", headers, body });
    return { status: answer.status, id: (await answer.json()).client_id as string };
  };
  const here = (await world.register()).body.client_id;
  const { id: other } = await from("192.0.2.1");
  const { id: site } = await from("2001:db8:1:2::1");
  const flood: string[] = [];
  // Each source may register twenty an hour.
  for (let n = 0; n < 105; n++) flood.push((await from(`198.51.100.${1 + Math.floor(n / 20)}`)).id);
  const ids = () => (sqlite.query("SELECT id FROM oauth_clients").all() as { id: string }[]).map(({ id }) => id);
  const left = new Set(ids());
  for (const id of [used, here, other, site, ...flood.slice(5)]) expect(left).toContain(id);
  for (const id of flood.slice(0, 5)) expect(left).not.toContain(id);
  expect(left.size).toBe(104);
  // Beyond all of them, none is taken but in place of the network's own.
  const add = sqlite.prepare("INSERT INTO oauth_clients VALUES (?, 'n', '[]', ?, NULL, ?)");
  sqlite.transaction(() => {
    for (let n = 0; n < 9_900; n++) add.run(`cli_${n}`, world.runtime.now(), `10.0.${n % 250}.0/24`);
  })();
  expect((await from("203.0.113.1")).status).toBe(429);
  expect((await from("198.51.100.99")).status).toBe(201);
  expect(ids()).toContain(other);
});

test("a grant keeps its latest tokens: 20 access tokens, and 1,000 refresh tokens", async () => {
  const world = await startOAuth();
  const { clientId, access, refreshToken } = await world.letIn();
  const { $client: sqlite } = world.core.store.db;
  const { key_id: keyId } = sqlite.query("SELECT key_id FROM oauth_grants").get() as { key_id: string };
  const add = sqlite.prepare("INSERT INTO oauth_tokens VALUES (NULL, ?, ?, ?, ?, ?)");
  const later = world.runtime.now() + 3_600_000;
  for (let n = 0; n < 1_200; n++) add.run(`r${n}`, keyId, "refresh", later, 0);
  for (let n = 0; n < 30; n++) add.run(`a${n}`, keyId, "access", later, null);
  expect((await world.refresh(clientId, refreshToken)).status).toBe(200);
  const counted = sqlite.query("SELECT kind, count(*) AS n FROM oauth_tokens GROUP BY kind ORDER BY kind").all();
  expect(counted).toEqual([
    { kind: "access", n: 20 },
    { kind: "refresh", n: 1_000 },
  ]);
  expect(await world.tryToken(access)).toBe(401);
});

test("a person has 20 requests open at most: the oldest is forgotten", async () => {
  const world = await startOAuth();
  const clientId = (await world.register()).body.client_id;
  const ids: string[] = [];
  for (let n = 0; n < 21; n++) ids.push((await world.open(world.queryOf(clientId))).body.request?.id ?? "");
  const deny = async (id = "") => (await world.alice.send("POST", `/oauth/requests/${id}/deny`)).status;
  expect([await deny(ids[0]), await deny(ids[1]), await deny(ids[20])]).toEqual([404, 200, 200]);
});
