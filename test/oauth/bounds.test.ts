/** What programs leave behind is bounded (rules: OAuth clients, OAuth tokens). */
import { expect, test } from "bun:test";
import { startOAuth } from "../harness/oauth.ts";

test("of 1,000 programs that nobody let in, the oldest makes room; one with a grant stays", async () => {
  const world = await startOAuth();
  const { clientId: used } = await world.letIn();
  const { $client: sqlite } = world.appliance.store.db;
  const add = sqlite.prepare("INSERT INTO oauth_clients VALUES (?, 'n', '[]', ?, NULL)");
  for (let n = 0; n < 1_000; n++) add.run(`cli_${n}`, world.runtime.now() - 1_000 + n);
  const clientId = (await world.register()).body.client_id;
  const ids = (sqlite.query("SELECT id FROM oauth_clients").all() as { id: string }[]).map(({ id }) => id);
  expect(ids).toHaveLength(1_001);
  expect(ids).toContain(used);
  expect(ids).toContain(clientId);
  expect(ids).not.toContain("cli_0");
  expect(ids).toContain("cli_1");
});

test("a grant keeps its latest tokens: 20 access tokens, and 1,000 refresh tokens", async () => {
  const world = await startOAuth();
  const { clientId, access, refreshToken } = await world.letIn();
  const { $client: sqlite } = world.appliance.store.db;
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
