/** Removals of mailboxes that were cut short: the server finishes plain ones, and the caller erasures. */
import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { addresses, mailboxes, messages } from "../../src/store/schema.ts";
import { openOffice } from "../harness/servers/admin-office.ts";
import { boot } from "../harness/servers/boot.ts";

/** Begins a removal of more than one portion. Timers never fire, so the removal stops at its first pause. */
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

test("the server finishes a removal, a portion at a time", async () => {
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

test("the server does not finish an erasure, whose events must be deleted first", async () => {
  const { people, team } = await cutShort(() => new Promise(() => {}));
  expect(people.finishRemovals.runDue(0)).toBeGreaterThan(1_000);
  expect(people.mailboxAt("team@acme.test")).toMatchObject({ id: team, removing: true, owner: "ada@acme.test" });
});

test("the server does not finish an erasure even if the mailbox expired meanwhile", async () => {
  const { people, team, store } = await cutShort(() => new Promise(() => {}));
  store.db.update(mailboxes).set({ expiresAt: 1 }).where(eq(mailboxes.id, team)).run();
  expect(people.removeExpired.runDue(Date.now() * 2)).toBeGreaterThan(1_000);
  expect(people.mailboxAt("team@acme.test")).toMatchObject({ id: team, removing: true, owner: "ada@acme.test" });
});

test("the expiry of a mailbox cannot change once its removal has begun", async () => {
  const { people, team, write } = await cutShort();
  expect(() => write((tx) => people.setExpiry(tx, team, null))).toThrow(
    "team@acme.test is being removed: it is too late to change when it expires",
  );
});

test("a mailbox gets no address or owner once its removal has begun, which would then never end or lose mail", async () => {
  const { people, team, write, ada } = await cutShort();
  const changes: [string, Parameters<typeof write>[0]][] = [
    ["its addresses", (tx) => void people.addAlias(tx, team, "sales@acme.test")],
    ["its owner", (tx) => people.assignMailbox(tx, team, ada)],
  ];
  for (const [what, change] of changes) {
    expect(() => write(change)).toThrow(`team@acme.test is being removed: it is too late to change ${what}`);
  }
});

test("the server finishes a removal that a killed command left", async () => {
  const { opened, owner, advance } = await boot();
  const {
    core: { store },
    people,
  } = opened;
  const { workspaceId } = owner;
  const id = store.transact((tx) => people.addMailbox(tx, { workspaceId, address: "old@example.test", name: "Old" }));
  store.transact((tx) => void tx.delete(addresses).where(eq(addresses.mailboxId, id)).run());
  await advance(3_600_000);
  await advance(1_000);
  expect(store.db.select().from(mailboxes).where(eq(mailboxes.id, id)).all()).toEqual([]);
});
