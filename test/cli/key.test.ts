/** `mailroom key …`: keys with policies, pauses, and what they did. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { openSetUp } from "../harness/servers/terminal.ts";

interface Made {
  id: string;
  key: string;
  policy?: object;
  paused?: boolean;
  state?: string;
}

async function open() {
  const terminal = await openSetUp();
  const [owner] = await terminal.ask<{ address?: string; email?: string }[]>("user", "list");
  const user = owner?.address ?? owner?.email ?? "";
  const create = (...more: string[]) =>
    terminal.ask<Made>("key", "create", "--user", user, "--name", "Agent", "--scopes", "read,send", ...more);
  return { ...terminal, user, create };
}

test("a policy is given as JSON or as a file, in its one spelling; without one there is none", async () => {
  const { ask, create, user } = await open();
  const policy = { recipients: ["Bob@Remote.Example", "thread"], otherwise: "hold", mailboxes: [user.toUpperCase()] };
  const read = { recipients: ["bob@remote.example", "thread"], otherwise: "hold", mailboxes: [user] };
  expect((await create("--policy", JSON.stringify(policy))).policy).toEqual(read);
  const file = join(temporaryFolder(), "policy.json");
  writeFileSync(file, JSON.stringify(policy));
  const { id } = await create("--policy", file);
  expect((await ask<Made[]>("key", "list")).find((key) => key.id === id)?.policy).toEqual(read);
  expect(await create()).not.toHaveProperty("policy");
});

test("key revoke names what the key made and goes on", async () => {
  const { ask, create, data } = await open();
  const [maker, made] = [await create(), await create()];
  using sqlite = new Database(join(data, "mailroom.db"));
  sqlite.run("UPDATE api_keys SET made_by = ? WHERE id = ?", [maker.id, made.id]);
  const revoked = { id: maker.id, state: "revoked", goesOn: [{ kind: "key", id: made.id, name: "Agent" }] };
  expect(await ask("key", "revoke", maker.id)).toEqual(revoked);
  expect(await ask("key", "revoke", made.id)).toEqual({ id: made.id, state: "revoked" });
});

test("key update renames, and replaces the policy whole", async () => {
  const { ask, create } = await open();
  const { id } = await create("--policy", '{"send": "hold", "codes": false}');
  expect(await ask<Made>("key", "update", id, "--name", "Other", "--policy", '{"send":"hold"}')).toMatchObject({
    id,
    name: "Other",
    policy: { send: "hold" },
  });
  expect((await ask<Made>("key", "update", id, "--policy", "{}")).policy).toEqual({});
});

test("key pause and resume", async () => {
  const { ask, create } = await open();
  const { id } = await create();
  expect(await ask<Made>("key", "pause", id)).toMatchObject({ id, paused: true, state: "paused" });
  expect(await ask("key", "pause", "--all")).toEqual({ all: true, paused: true, workspaces: ["acme.test"] });
  expect(await ask("key", "resume", "--all", "--workspace", "acme.test")).toMatchObject({ paused: false });
  expect((await ask<Made[]>("key", "list")).find((key) => key.id === id)).toMatchObject({ paused: true });
  expect(await ask<Made>("key", "resume", id)).toMatchObject({ paused: false, state: "active" });
});

test.each([
  [["key", "pause"], 2],
  [["key", "pause", "key_x", "--all"], 2],
  [["key", "resume", "key_x", "key_y"], 2],
  [["key", "pause", "key_x"], 1],
  [["key", "update", "key_x"], 2],
  [["key", "update", "key_x", "--name", "X"], 1],
  [["key", "create", "--policy", "{"], 2],
  [["key", "create", "--policy", "/nowhere/policy.json"], 2],
  [["key", "create", "--policy", '{"recipient":[]}'], 1],
  [["key", "create", "--policy", '{"mailboxes":["nobody@nowhere.example"]}'], 1],
])("%p exits with %d", async (args, code) => {
  const { say, user } = await open();
  const more = args[1] === "create" ? ["--user", user, "--name", "X", "--scopes", "read"] : [];
  expect((await say(...args, ...more)).exitCode).toBe(code);
});
