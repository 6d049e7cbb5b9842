/** Removing a mailbox that is cut short: who finishes it, and what is left to whoever asked. */
import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { addresses, mailboxes, messages } from "../../src/store/schema.ts";
import { openOffice } from "../harness/admin-office.ts";
import { boot } from "../harness/appliance.ts";

/** More than one portion of conversations, and a clock whose timers never fire: what rests does so for good. */
async function cutShort(forget?: () => Promise<void>) {
  const office = openOffice({ setTimer: () => () => {} });
  const { people, file, ada, acme, write } = office;
  const team = write((tx) =>
    people.addMailbox(tx, { workspaceId: acme, address: "team@acme.test", name: "Team", ownerId: ada }),
  );
  for (let i = 0; i < 401; i++) await file(team, { subject: `Number ${i}`, from: `a${i}@remote.example` });
  await file(people.mailboxAt("ada@acme.test").id, { subject: "Kept" });
  void people.removeMailbox(team, forget);
  await Promise.resolve();
  return { ...office, team };
}

test("the server finishes it, a portion at a time", async () => {
  const { people, store } = await cutShort();
  expect(store.db.select().from(messages).all()).toHaveLength(202);
  const { runDue } = people.finishRemovals;
  let now = 0;
  const left: number[] = [];
  for (let due = runDue(now); due - now < 1_000; due = runDue(now)) {
    now = due;
    left.push(store.db.select().from(messages).all().length);
  }
  expect(left).toEqual([2, 1, 1]);
  expect(people.listMailboxes().map(({ address }) => address)).toEqual(["ada@acme.test"]);
});

test("an erasure is not finished without what has to be forgotten first", async () => {
  const { people, team } = await cutShort(() => new Promise(() => {}));
  expect(people.finishRemovals.runDue(0)).toBeGreaterThan(1_000);
  expect(people.mailboxAt("team@acme.test")).toMatchObject({ id: team, removing: true, owner: "ada@acme.test" });
});

test("nor when the mailbox expired meanwhile", async () => {
  const { people, team, store } = await cutShort(() => new Promise(() => {}));
  store.db.update(mailboxes).set({ expiresAt: 1 }).where(eq(mailboxes.id, team)).run();
  expect(people.removeExpired.runDue(Date.now() * 2)).toBeGreaterThan(1_000);
  expect(people.mailboxAt("team@acme.test")).toMatchObject({ id: team, removing: true, owner: "ada@acme.test" });
});

test("once it has begun, it is too late to change when the mailbox expires", async () => {
  const { people, team, write } = await cutShort();
  expect(() => write((tx) => people.setExpiry(tx, team, null))).toThrow(
    "team@acme.test is being removed: it is too late to change when it expires",
  );
});

test("once it has begun, the mailbox gets no address and no owner: it would never end, or lose what came", async () => {
  const { people, team, write, ada } = await cutShort();
  const changes: [string, Parameters<typeof write>[0]][] = [
    ["its addresses", (tx) => void people.addAlias(tx, team, "sales@acme.test")],
    ["its owner", (tx) => people.assignMailbox(tx, team, ada)],
  ];
  for (const [what, change] of changes) {
    expect(() => write(change)).toThrow(`team@acme.test is being removed: it is too late to change ${what}`);
  }
});

test("a server does so by itself with what a command left that was killed", async () => {
  const { appliance, owner, advance } = await boot();
  const { people, store } = appliance;
  const { workspaceId } = owner;
  const id = store.transact((tx) => people.addMailbox(tx, { workspaceId, address: "old@example.test", name: "Old" }));
  store.transact((tx) => void tx.delete(addresses).where(eq(addresses.mailboxId, id)).run());
  await advance(3_600_000);
  await advance(1_000);
  expect(store.db.select().from(mailboxes).where(eq(mailboxes.id, id)).all()).toEqual([]);
});
