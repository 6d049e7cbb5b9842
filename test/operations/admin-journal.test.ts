/** The journal of a key and its undo over the administration API. */
import { beforeAll, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import { MAIL_SCOPES } from "../../src/store/schema.ts";
import type { Client } from "../harness/clients/api.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

let world: ExtWorld;
let agent: { id: string; api: Client };
const ADMIN = "/api/admin/v1";

beforeAll(async () => {
  world = await bootExt();
  const { core } = world.opened;
  const { store } = core;
  const made = store.transact((tx) =>
    developers.createKey(core, tx, { userId: world.owner.userId, name: "Agent", scopes: MAIL_SCOPES }),
  );
  agent = { id: made.id, api: world.apiWith(made.key) };
});

interface Page {
  entries: { operation: string; kind: string; ids: string[]; outcome: string }[];
  nextCursor: string | null;
}

test("an agent trashes conversations and marks others; a person pauses it, reads what it did, and takes it back", async () => {
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.push((await world.receive(ALICE, `Number ${i}`)).threadId);
  const [first = "", second = ""] = ids;
  const since = new Date(world.runtime.now()).toISOString();
  await world.advance(1_000);
  await agent.api.patch("/api/ext/v1/threads", { ids: ids.slice(2), folder: "trash" });
  await agent.api.patch(`/threads/${first}`, { starred: true, addLabels: ["Seen"] });
  await agent.api.patch(`/threads/${second}`, { starred: true });
  await agent.api.post("/send", { from: ALICE, to: MAX, subject: "Done", text: "Done" });
  await world.api.patch(`${ADMIN}/keys/${agent.id}`, { paused: true });
  // Another key confirms one of the stars.
  await world.api.patch(`/threads/${second}`, { starred: true });

  const journal = async (query: string) =>
    (await world.api.get<Page>(`${ADMIN}/keys/${agent.id}/journal${query}`)).body;
  const all = await journal("");
  expect(all.entries.map(({ operation, kind }) => [operation, kind])).toEqual([
    ["sendEmail", "sent"],
    ["updateThread", "changed"],
    ["updateThread", "changed"],
    ["updateThreads", "changed"],
  ]);
  expect(all.entries.at(-1)?.ids).toEqual(ids.slice(2));
  const page = await journal("?limit=1&kind=changed");
  expect(page.entries).toEqual(all.entries.slice(1, 2));
  expect((await journal(`?limit=2&kind=changed&cursor=${page.nextCursor}`)).entries).toEqual(all.entries.slice(2));
  expect((await journal("?kind=changed&outcome=ok")).entries).toEqual(all.entries.slice(1));
  expect((await journal("?outcome=held")).entries).toEqual([]);
  expect(JSON.stringify(all)).not.toMatch(/Number|Done|example\.test/);

  const undo = (body: object) => world.api.post<Record<string, unknown>>(`${ADMIN}/keys/${agent.id}/undo`, body);
  const dry = await undo({ since, dryRun: true });
  expect(dry.body).toMatchObject({ dryRun: true, threads: 4, leftChanges: 1, sent: { messages: 1, recipients: 1 } });
  expect((await world.api.get(`/threads/${ids[4]}`)).body.thread).toMatchObject({ folder: "trash" });
  const done = await undo({ since });
  expect(done.body).toEqual({ ...dry.body, dryRun: false });
  expect(done.body.left).toEqual([{ threadId: second, field: "starred", reason: "key" }]);
  for (const id of ids.slice(2)) {
    expect((await world.api.get(`/threads/${id}`)).body.thread).toMatchObject({ folder: "inbox" });
  }
  expect((await world.api.get(`/threads/${first}`)).body.thread).toMatchObject({ starred: false, labels: [] });
  expect((await undo({ since })).body).toMatchObject({ threads: 0, changes: 0 });
});

test("is for admins; a restricted key and one of another workspace do not see it", async () => {
  const { core } = world.opened;
  const { store } = core;
  const limited = store.transact((tx) =>
    developers.createKey(core, tx, {
      userId: world.owner.userId,
      name: "L",
      scopes: ["admin"],
      policy: { mailboxes: [MAX] },
    }),
  );
  const ask = async (api: Client) => (await api.get(`${ADMIN}/keys/${agent.id}/journal`)).status;
  expect(await ask(world.apiWith(limited.key))).toBe(403);
  expect(await ask(world.asMax)).toBe(403);
  expect((await world.api.get(`${ADMIN}/keys/key_nothing/journal`)).status).toBe(404);
  expect((await world.api.post(`${ADMIN}/keys/key_nothing/undo`, { since: "2020-01-01T00:00:00Z" })).status).toBe(404);
});

test.each([
  [{}, "since is required"],
  [{ since: "yesterday" }, "since"],
  [{ since: "2020-01-01T00:00:00Z", until: "x" }, "until"],
])("undo of %p is 400", async (body, word) => {
  const answer = await world.api.post<{ code: string; error: string }>(`${ADMIN}/keys/${agent.id}/undo`, body);
  expect([answer.status, answer.body.code]).toEqual([400, "bad_request"]);
  expect(answer.body.error).toContain(word);
});
