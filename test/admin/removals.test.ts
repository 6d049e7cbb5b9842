/** Removals of mailboxes that were cut short: the server finishes plain ones, and the caller erasures. */
import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as removals from "../../src/admin/removals.ts";
import { addresses, mailboxes, messages } from "../../src/store/schema.ts";
import { openOffice } from "../harness/servers/admin-office.ts";
import { boot } from "../harness/servers/boot.ts";

/** Begins a removal of more than one portion. Timers never fire, so the removal stops at its first pause. */
async function cutShort(forget?: () => Promise<void>) {
  const office = openOffice({ setTimer: () => () => {} });
  const { core, file, ada, acme, write } = office;
  const team = write((tx) =>
    mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: "team@acme.test", name: "Team", ownerId: ada }),
  );
  for (let i = 0; i < 401; i++) await file(team, { subject: `Number ${i}`, from: `a${i}@remote.example` });
  await file(mailboxAdmin.getMailboxByAddress(core, "ada@acme.test").id, { subject: "Kept" });
  void removals.removeMailbox(core, team, forget);
  await Promise.resolve();
  return { ...office, team };
}

test("the server finishes a removal, a portion at a time", async () => {
  const { core, store } = await cutShort();
  expect(store.db.select().from(messages).all()).toHaveLength(202);
  const runDue = (now: number) => removals.finishMailboxRemovals(core).runDue(now) as number;
  let now = 0;
  const left: number[] = [];
  for (let due = runDue(now); due - now < 1_000; due = runDue(now)) {
    now = due;
    left.push(store.db.select().from(messages).all().length);
  }
  expect(left).toEqual([2, 1, 1]);
  expect(mailboxAdmin.listMailboxes(core).map(({ address }) => address)).toEqual(["ada@acme.test"]);
});

test("the server does not finish an erasure, whose events must be deleted first", async () => {
  const { core, team } = await cutShort(() => new Promise(() => {}));
  expect(removals.finishMailboxRemovals(core).runDue(0)).toBeGreaterThan(1_000);
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test")).toMatchObject({
    id: team,
    removing: true,
    owner: "ada@acme.test",
  });
});

test("the server does not finish an erasure even if the mailbox expired meanwhile", async () => {
  const { core, team, store } = await cutShort(() => new Promise(() => {}));
  store.db.update(mailboxes).set({ expiresAt: 1 }).where(eq(mailboxes.id, team)).run();
  expect(removals.removeExpiredMailboxes(core).runDue(Date.now() * 2)).toBeGreaterThan(1_000);
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test")).toMatchObject({
    id: team,
    removing: true,
    owner: "ada@acme.test",
  });
});

test("the expiry of a mailbox cannot change once its removal has begun", async () => {
  const { core, team, write } = await cutShort();
  expect(() => write((tx) => mailboxAdmin.setExpiry(core, tx, team, null))).toThrow(
    "team@acme.test is being removed: it is too late to change when it expires",
  );
});

test("a mailbox gets no address or owner once its removal has begun, which would then never end or lose mail", async () => {
  const { core, team, write, ada } = await cutShort();
  const changes: [string, Parameters<typeof write>[0]][] = [
    ["its addresses", (tx) => void mailboxAdmin.addAlias(core, tx, team, "sales@acme.test")],
    ["its owner", (tx) => mailboxAdmin.assignMailbox(tx, team, ada)],
  ];
  for (const [what, change] of changes) {
    expect(() => write(change)).toThrow(`team@acme.test is being removed: it is too late to change ${what}`);
  }
});

test("the server finishes a removal that a killed command left", async () => {
  const { opened, owner, advance } = await boot();
  const { core } = opened;
  const { store } = core;
  const { workspaceId } = owner;
  const id = store.transact((tx) =>
    mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "old@example.test", name: "Old" }),
  );
  store.transact((tx) => void tx.delete(addresses).where(eq(addresses.mailboxId, id)).run());
  await advance(3_600_000);
  await advance(1_000);
  expect(store.db.select().from(mailboxes).where(eq(mailboxes.id, id)).all()).toEqual([]);
});
