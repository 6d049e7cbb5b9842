/** Mail due to people about their access: each is sent once, independently of the others. */
import { expect, test } from "bun:test";
import { addAccessNotice, tellAccessChanges } from "../../src/access/access-notices.ts";
import { accessNotices } from "../../src/store/schema.ts";
import { START } from "../harness/runtime.ts";
import { createWorld } from "../harness/servers/mailbox-world.ts";

function setUp() {
  const { core, store, workspace, user } = createWorld();
  const workspaceId = workspace("W", "a.test");
  const told: { email: string; text: string }[] = [];
  const broken = new Set<string>();
  const logged: unknown[] = [];
  const log = { info: (_: string, fields: unknown) => logged.push(fields) } as never;
  const job = tellAccessChanges({ ...core, log }, async ({ workspaceId: of, to, text }, record) => {
    expect(of).toBe(workspaceId);
    if (broken.has(to.email)) throw new Error("the key of its domain does not work");
    store.transact((tx) => record(tx));
    told.push({ email: to.email, text });
  });
  const owe = (email: string, keys: number) => {
    const { userId } = user(workspaceId, email, "member");
    const change = { change: "password", doneBy: "operator", appPasswords: 1, keys, createdAt: START } as const;
    store.transact((tx) => addAccessNotice(tx, { userId, ...change }));
  };
  const owed = () => store.db.select().from(accessNotices).all().length;
  return { job, told, broken, owe, owed, logged, store, user, workspaceId };
}

test("a notice that cannot be sent does not delay the others, and is retried", async () => {
  const { job, told, broken, owe, owed, logged } = setUp();
  for (const [email, keys] of [
    ["ann@a.test", 0],
    ["ben@a.test", 1],
  ] as const) {
    owe(email, keys);
  }
  broken.add("ann@a.test");
  await expect(job.runDue(START)).rejects.toThrow("does not work");
  expect([told.map(({ email }) => email), owed()]).toEqual([["ben@a.test"], 1]);
  broken.clear();
  expect(await job.runDue(START)).toBe(START + 10_000);
  await job.runDue(START);
  expect([told.map(({ email }) => email), owed()]).toEqual([["ben@a.test", "ann@a.test"], 0]);
  expect(told[0]?.text).toContain("1 app password and 1 API key were ended");
  expect(told[0]?.text).toContain("on Mon, 05 Jan 2026 09:00:00 GMT, by the operator of the server");
  expect(logged).toHaveLength(2);
});

test("a hundred are sent at once, the others at the next check", async () => {
  const { job, told, owe } = setUp();
  for (let i = 0; i < 101; i++) owe(`p${i}@a.test`, 0);
  await job.runDue(START);
  expect(told).toHaveLength(100);
  await job.runDue(START);
  expect(told).toHaveLength(101);
});

test("a key that an admin makes for somebody is told to them", async () => {
  const { job, told, store, user, workspaceId } = setUp();
  const { userId } = user(workspaceId, "ann@a.test", "member");
  const change = { change: "key", doneBy: "admin", appPasswords: 0, keys: 0, createdAt: START } as const;
  store.transact((tx) => addAccessNotice(tx, { userId, ...change }));
  await job.runDue(START);
  expect(told.map(({ text }) => text)).toEqual([
    expect.stringMatching(/^An API key was made for you on .* 2026 .*, by an owner or admin of your workspace\./),
  ]);
});
