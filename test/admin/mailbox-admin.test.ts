import { expect, test } from "bun:test";
import * as domains from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import * as removals from "../../src/admin/removals.ts";
import type { RowPage } from "../../src/store/cursor.ts";
import { messages, threadReferences, threads } from "../../src/store/schema.ts";
import { openOffice } from "../harness/servers/admin-office.ts";

function openWithMailbox() {
  const office = openOffice();
  const { write, core, acme } = office;
  const team = write((tx) =>
    mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: "Team@acme.TEST", name: "Team" }),
  );
  return {
    ...office,
    team,
    aliasing: (alias: string) => () => write((tx) => mailboxAdmin.addAlias(core, tx, team, alias)),
  };
}

test("a mailbox has an address in a domain of its workspace, and perhaps an owner from it", () => {
  const { core, write, acme, beta, ada, addUser, team } = openWithMailbox();
  expect(mailboxAdmin.getMailboxByAddress(core, "TEAM@acme.test")).toEqual({
    id: team,
    workspaceId: acme,
    address: "team@acme.test",
    name: "Team",
    ownerId: null,
    owner: null,
    aliases: [],
    catchAlls: [],
    grants: [],
    quotaBytes: null,
    usedBytes: 0,
    pausedReason: null,
    expiresAt: null,
    removing: false,
    lost: false,
    createdAt: mailboxAdmin.getMailboxByAddress(core, "team@acme.test").createdAt,
  });
  const add = (address: string, more = {}) =>
    write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address, name: "X", ...more }));
  add("ada.private@acme.test", { ownerId: ada });
  expect(mailboxAdmin.getMailboxByAddress(core, "ada.private@acme.test").owner).toBe("ada@acme.test");

  expect(() => add("team@acme.test")).toThrow("team@acme.test is a mailbox already");
  expect(() => add("x@beta.test")).toThrow("beta.test is not a domain of this workspace: add it first");
  expect(() => add("x@sub.acme.test")).toThrow(/sub\.acme\.test is not a domain/);
  expect(() => add("x+tag@acme.test")).toThrow(/has a tag/);
  expect(() => add("*@acme.test")).toThrow(/can only be an alias/);
  expect(() => add("acme.test")).toThrow(/is not an address/);
  expect(() => add("y@acme.test", { name: "\u0007" })).toThrow(/give the mailbox a name/);
  const bea = addUser(beta, "bea@beta.test", "owner");
  expect(() => add("y@acme.test", { ownerId: bea.userId })).toThrow(/not in the workspace of the mailbox/);
  expect(mailboxAdmin.listMailboxes(core, acme).map(({ address }) => address)).toEqual([
    "ada.private@acme.test",
    "ada@acme.test",
    "team@acme.test",
  ]);
});

test("every spelling of an international domain is the same domain", () => {
  const { core, write, acme } = openOffice();
  expect(write((tx) => domains.addDomain(core, tx, acme, "Bücher.Example.", [])).name).toBe("xn--bcher-kva.example");
  write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: "info@bücher.example", name: "Info" }));
  expect(mailboxAdmin.getMailboxByAddress(core, "INFO@xn--bcher-kva.example").address).toBe(
    "info@xn--bcher-kva.example",
  );
});

test("aliases and catch-alls are added and removed, and each leads to one mailbox", () => {
  const { core, write, team, aliasing } = openWithMailbox();
  expect(aliasing("Sales@Acme.test")()).toBe("sales@acme.test");
  expect(aliasing("*@ACME.test")()).toBe("*@acme.test");
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test")).toMatchObject({
    aliases: ["sales@acme.test"],
    catchAlls: ["*@acme.test"],
  });
  expect(aliasing("sales@acme.test")).toThrow("sales@acme.test leads to team@acme.test already");
  expect(aliasing("*@acme.test")).toThrow("*@acme.test leads to team@acme.test already");
  expect(aliasing("ada@acme.test")).toThrow("ada@acme.test is a mailbox already");
  expect(aliasing("sales@beta.test")).toThrow(/beta\.test is not a domain of this workspace/);
  expect(aliasing("*@beta.test")).toThrow(/beta\.test is not a domain of this workspace/);
  expect(aliasing("sales+eu@acme.test")).toThrow(/has a tag/);
  expect(aliasing("*@nowhere")).toThrow(/"nowhere" is not a domain/);
  expect(() => mailboxAdmin.getMailboxByAddress(core, "sales@acme.test")).toThrow(
    "is an alias: name its mailbox, team@acme.test",
  );

  const remove = (mailbox: string, alias: string) => () => write((tx) => mailboxAdmin.removeAlias(tx, mailbox, alias));
  expect(remove(team, "team@acme.test")).toThrow(/the address of the mailbox itself/);
  expect(remove(mailboxAdmin.getMailboxByAddress(core, "ada@acme.test").id, "sales@acme.test")).toThrow(
    /not an alias of ada@acme\.test/,
  );
  remove(team, "SALES@acme.test")();
  remove(team, "*@acme.test")();
  expect(remove(team, "sales@acme.test")).toThrow(/not an alias of team@acme\.test/);
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test")).toMatchObject({ aliases: [], catchAlls: [] });
});

test("shares stay within the workspace and can change", () => {
  const { core, write, acme, beta, team, addUser } = openWithMailbox();
  const bob = addUser(acme, "bob@acme.test", "member").userId;
  const bea = addUser(beta, "bea@beta.test", "owner").userId;
  write((tx) => mailboxAdmin.grantMailboxAccess(tx, team, bob, "view"));
  write((tx) => mailboxAdmin.grantMailboxAccess(tx, team, bob, "full"));
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test").grants).toEqual([
    { user: "bob@acme.test", userId: bob, access: "full" },
  ]);
  expect(() => write((tx) => mailboxAdmin.grantMailboxAccess(tx, team, bea, "view"))).toThrow(/not in the workspace/);
  expect(() => write((tx) => mailboxAdmin.grantMailboxAccess(tx, "mbx_none", bob, "view"))).toThrow(/no such mailbox/);
  write((tx) => mailboxAdmin.revokeMailboxAccess(tx, team, bob));
  expect(() => write((tx) => mailboxAdmin.revokeMailboxAccess(tx, team, bob))).toThrow(/not shared with that user/);
});

test("a quota is set, and returned to the setting", () => {
  const { core, write, team } = openWithMailbox();
  write((tx) => mailboxAdmin.setQuota(tx, team, 5000));
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test").quotaBytes).toBe(5000);
  write((tx) => mailboxAdmin.setQuota(tx, team, null));
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test").quotaBytes).toBeNull();
  for (const bytes of [-1, 1.5, Number.NaN, 2 ** 60]) {
    expect(() => write((tx) => mailboxAdmin.setQuota(tx, team, bytes))).toThrow(/whole number of bytes/);
  }
});

test("a mailbox is paused for a reason, and resumed", () => {
  const { core, write, team } = openWithMailbox();
  const reasonNow = () => mailboxAdmin.getMailboxByAddress(core, "team@acme.test").pausedReason;
  write((tx) => mailboxAdmin.pauseMailbox(tx, team, "  Unpaid bill "));
  expect(reasonNow()).toBe("Unpaid bill");
  expect(mailboxAdmin.getMailboxByAddress(core, "ada@acme.test").pausedReason).toBeNull();
  write((tx) => mailboxAdmin.pauseMailbox(tx, team, "é".repeat(500)));
  expect(reasonNow()).toBe("é".repeat(500));
  for (const reason of ["", "  ", "two\nlines", "two\u2028lines", "\u0007", "x".repeat(501)]) {
    expect(() => write((tx) => mailboxAdmin.pauseMailbox(tx, team, reason))).toThrow(
      /give a reason of 1 to 500 characters/,
    );
  }
  expect(reasonNow()).toBe("é".repeat(500));
  for (let i = 0; i < 2; i++) {
    write((tx) => mailboxAdmin.resumeMailbox(tx, team));
    expect(reasonNow()).toBeNull();
  }
  expect(() => write((tx) => mailboxAdmin.pauseMailbox(tx, "mbx_none", "x"))).toThrow(/no such mailbox/);
  expect(() => write((tx) => mailboxAdmin.resumeMailbox(tx, "mbx_none"))).toThrow(/no such mailbox/);
});

test("removing a mailbox removes its addresses, mail and index, and nothing else", async () => {
  const { core, write, acme, team, aliasing, file, store, runtime } = openWithMailbox();
  aliasing("sales@acme.test")();
  const { id: ada } = mailboxAdmin.getMailboxByAddress(core, "ada@acme.test");
  // More than one portion: 201 conversations of one message.
  for (let i = 0; i < 201; i++) {
    await file(team, { subject: `Number ${i}`, from: `a${i}@remote.example`, headers: [`References: <${i}@x>`] });
  }
  await file(ada, { subject: "Kept", headers: ["References: <0@x>"] });

  const removed = removals.removeMailbox(core, team);
  // A removal cut short here leaves the mailbox without an address, so that another removal can finish it.
  expect(mailboxAdmin.getMailboxByAddress(core, "team@acme.test")).toMatchObject({ aliases: [], removing: true });
  expect(() =>
    write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: "team@acme.test", name: "New" })),
  ).toThrow(/still being removed/);
  for (let wake = runtime.nextTimer(); wake !== undefined; wake = runtime.nextTimer()) {
    runtime.advanceTo(wake);
    await Promise.resolve();
  }
  await removed;

  expect(mailboxAdmin.listMailboxes(core).map(({ address }) => address)).toEqual(["ada@acme.test"]);
  expect(store.db.select().from(threads).all()).toMatchObject([{ mailboxId: ada, subject: "Kept" }]);
  expect(store.db.select().from(messages).all()).toHaveLength(1);
  expect(store.db.select().from(threadReferences).all()).toHaveLength(1);
  expect(mailboxAdmin.getMailboxByAddress(core, "ada@acme.test").usedBytes).toBeGreaterThan(0);
  await expect(removals.removeMailbox(core, team)).rejects.toThrow(/no such mailbox/);
  write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId: acme, address: "team@acme.test", name: "New" }));
});

test("pages have each mailbox and each person once, the oldest first, with all that the whole list tells of them", () => {
  const { core, write, acme, ada, runtime } = openOffice();
  write((tx) => {
    for (let i = 0; i < 510; i++) {
      if (i % 7 === 0) runtime.advanceTo(runtime.now() + 1);
      const person = { workspaceId: acme, email: `p${i}@acme.test`, name: `P${i}`, role: "member" } as const;
      const { mailboxId = "" } = people.addUser(core, tx, { ...person, ownMailbox: true });
      if (i % 50 > 0) continue;
      mailboxAdmin.addAlias(core, tx, mailboxId, `alias${i}@acme.test`);
      mailboxAdmin.grantMailboxAccess(tx, mailboxId, ada, "send");
    }
  });
  type Row = { id: string; createdAt: number };
  const inPages = <T extends Row>(read: (page: RowPage) => T[]): T[] => {
    const rows: T[] = [];
    for (;;) {
      const last = rows.at(-1);
      const page = read({ after: last && { at: last.createdAt, id: last.id }, limit: 100 });
      rows.push(...page);
      if (page.length < 100) return rows;
    }
  };
  const byAge = <T extends Row>(rows: T[]) =>
    rows.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  expect(inPages((page) => mailboxAdmin.listMailboxes(core, acme, page))).toEqual(
    byAge(mailboxAdmin.listMailboxes(core, acme)),
  );
  expect(inPages((page) => people.listUsers(core, acme, page))).toEqual(byAge(people.listUsers(core, acme)));
  expect(
    mailboxAdmin.listMailboxes(core, acme).filter(({ aliases, grants }) => aliases.length + grants.length === 2),
  ).toHaveLength(11);
});
