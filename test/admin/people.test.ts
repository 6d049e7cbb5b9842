import { expect, test } from "bun:test";
import { findCaller } from "../../src/access/credentials.ts";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { hashNewPassword } from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { users, workspaces } from "../../src/store/schema.ts";
import { openOffice } from "../harness/servers/admin-office.ts";

test("names of workspaces are distinct, ignoring case", () => {
  const { core, write } = openOffice();
  expect(workspaceAdmin.listWorkspaces(core).map(({ name }) => name)).toEqual(["Acme", "Beta"]);
  expect(workspaceAdmin.getWorkspaceByName(core, " acme ").name).toBe("Acme");
  expect(() => write((tx) => workspaceAdmin.addWorkspace(core, tx, "ACME"))).toThrow(
    /there is a workspace ACME already/,
  );
  expect(() => workspaceAdmin.getWorkspaceByName(core, "Gamma")).toThrow(/there is no workspace Gamma/);
  for (const name of ["", "  ", "two\nlines", "x".repeat(121)]) {
    expect(() => write((tx) => workspaceAdmin.addWorkspace(core, tx, name))).toThrow(/give the workspace a name/);
  }
});

test("the first workspace is the operator's, also if the clock was ahead when it was added", () => {
  const { core, write, acme } = openOffice();
  const ahead = 2 ** 42;
  write((tx) => tx.update(workspaces).set({ createdAt: ahead }).run());
  const { id } = write((tx) => workspaceAdmin.addWorkspace(core, tx, "After"));
  expect(workspaceAdmin.listWorkspaces(core).at(-1)).toMatchObject({ id, createdAt: ahead + 1 });
  expect([workspaceAdmin.isOperatorWorkspace(core, acme), workspaceAdmin.isOperatorWorkspace(core, id)]).toEqual([
    true,
    false,
  ]);
});

test("a workspace is paused for a reason, and resumed, independently of its mailboxes", () => {
  const { core, write, acme } = openOffice();
  const { id: box } = mailboxAdmin.getMailboxByAddress(core, "ada@acme.test");
  const reasons = () => workspaceAdmin.listWorkspaces(core).map(({ pausedReason }) => pausedReason);
  expect(reasons()).toEqual([null, null]);
  write((tx) => mailboxAdmin.pauseMailbox(tx, box, "Of its own"));
  write((tx) => workspaceAdmin.pauseWorkspace(tx, acme, " Under attack "));
  expect(reasons()).toEqual(["Under attack", null]);
  expect(() => write((tx) => workspaceAdmin.pauseWorkspace(tx, acme, " \t"))).toThrow(/give a reason/);
  write((tx) => workspaceAdmin.resumeWorkspace(tx, acme));
  expect(reasons()).toEqual([null, null]);
  expect(mailboxAdmin.getMailboxByAddress(core, "ada@acme.test").pausedReason).toBe("Of its own");
  expect(() => write((tx) => workspaceAdmin.pauseWorkspace(tx, "wsp_none", "x"))).toThrow(/no such workspace/);
  expect(() => write((tx) => workspaceAdmin.resumeWorkspace(tx, "wsp_none"))).toThrow(/no such workspace/);
});

test("a user gets a mailbox at their address if asked for", () => {
  const { core, write, acme } = openOffice();
  const bob = { workspaceId: acme, email: "Bob@ACME.test", name: " Bob ", role: "member", ownMailbox: true } as const;
  const { userId, mailboxId } = write((tx) => people.addUser(core, tx, bob));
  expect(people.getUserByAddress(core, "bob@acme.test")).toMatchObject({
    id: userId,
    email: "bob@acme.test",
    name: "Bob",
    canSignIn: false,
  });
  expect(mailboxAdmin.getMailboxByAddress(core, "bob@acme.test")).toMatchObject({
    id: mailboxId,
    name: "Bob",
    ownerId: userId,
  });

  const eve = { ...bob, email: "eve@elsewhere.example", ownMailbox: false };
  expect(write((tx) => people.addUser(core, tx, eve))).not.toHaveProperty("mailboxId");
  expect(people.listUsers(core, acme).map(({ email }) => email)).toEqual([
    "ada@acme.test",
    "bob@acme.test",
    "eve@elsewhere.example",
  ]);
});

test("a refused user leaves nothing behind", () => {
  const { core, write, acme, beta, addUser } = openOffice();
  const before = people.listUsers(core);
  expect(() => addUser(acme, "ada@acme.test", "member")).toThrow(/there is a user ada@acme\.test already/);
  expect(() => addUser(beta, "ada@acme.test", "member")).toThrow(/already/);
  expect(() => addUser(acme, "eve@elsewhere.example", "member")).toThrow(/elsewhere\.example is not a domain of this/);
  expect(() => addUser(acme, "eve@beta.test", "member")).toThrow(/beta\.test is not a domain of this workspace/);
  expect(() => addUser(acme, "nonsense", "member")).toThrow(/"nonsense" is not an address/);
  const nameless = { workspaceId: acme, email: "x@acme.test", name: "", role: "member", ownMailbox: true } as const;
  expect(() => write((tx) => people.addUser(core, tx, nameless))).toThrow(/give the user a name/);
  expect(people.listUsers(core)).toEqual(before);
  expect(mailboxAdmin.listMailboxes(core)).toHaveLength(1);
});

test("somebody who was there before a workspace verified its domain keeps the address, and is not named", () => {
  const { core, write, acme, beta, ada } = openOffice();
  const eve = { email: "eve@acme.test", name: "Eve", role: "member", ownMailbox: false } as const;
  write((tx) => people.addUser(core, tx, { ...eve, workspaceId: beta }));
  write((tx) => domains.markDomainVerified(core, tx, domains.getDomainByName(core, "acme.test").id));
  const add = (by?: string) => () => write((tx) => people.addUser(core, tx, { ...eve, workspaceId: acme }, by));
  expect(add(ada)).toThrow("eve@acme.test is not free: ask the operator of the server");
  expect(add()).toThrow("there is a user eve@acme.test already, in another workspace");
});

test("the last owner can neither be demoted nor removed; one of two can", () => {
  const { core, write, acme, beta, ada, addUser } = openOffice();
  expect(() => write((tx) => people.setRole(tx, ada, "admin"))).toThrow(
    "ada@acme.test is the last owner of the workspace and cannot be made admin",
  );
  expect(() => write((tx) => people.removeUser(tx, ada))).toThrow(/last owner .* cannot be removed/);
  write((tx) => people.setRole(tx, ada, "owner"));
  expect(people.getUserByAddress(core, "ada@acme.test").role).toBe("owner");

  // An owner of another workspace does not count.
  addUser(beta, "bea@beta.test", "owner");
  expect(() => write((tx) => people.removeUser(tx, ada))).toThrow(/last owner/);

  const bob = addUser(acme, "bob@acme.test", "admin");
  write((tx) => people.setRole(tx, bob.userId, "owner"));
  write((tx) => people.removeUser(tx, ada));
  expect(() => write((tx) => people.setRole(tx, bob.userId, "member"))).toThrow(/last owner/);
  expect(() => write((tx) => people.removeUser(tx, ada))).toThrow(/no such user/);
});

test("removing a user removes their keys and shares, and leaves the mailbox without an owner", () => {
  const { core, store, write, acme, ada, addUser } = openOffice();
  const bob = addUser(acme, "bob@acme.test", "member");
  const { id: shared } = mailboxAdmin.getMailboxByAddress(core, "ada@acme.test");
  write((tx) => mailboxAdmin.grantMailboxAccess(tx, shared, bob.userId, "view"));
  const { key } = write((tx) =>
    developers.createKey(core, tx, { userId: bob.userId, name: "Bob's", scopes: ["read"] }),
  );
  expect(findCaller(store.db, key)).toMatchObject({ userId: bob.userId, role: "member" });
  write((tx) => people.setRole(tx, bob.userId, "admin"));
  expect(findCaller(store.db, key)).toMatchObject({ role: "admin" });

  write((tx) => people.removeUser(tx, bob.userId));
  expect(findCaller(store.db, key)).toBeUndefined();
  expect(mailboxAdmin.getMailboxByAddress(core, "ada@acme.test")).toMatchObject({ grants: [], ownerId: ada });
  expect(mailboxAdmin.getMailboxByAddress(core, "bob@acme.test")).toMatchObject({ owner: null, ownerId: null });
  expect(() => people.getUserByAddress(core, "bob@acme.test")).toThrow(/there is no user bob@acme\.test/);
  // A new user with the same address does not get the mail.
  expect(() => addUser(acme, "bob@acme.test", "member")).toThrow(/bob@acme\.test is a mailbox already/);
});

test("passwords are stored as argon2id; short and overlong ones are refused", async () => {
  const { core, store, write, ada } = openOffice();
  const hash = await hashNewPassword("correct horse");
  write((tx) => people.setPassword(core, tx, ada, hash));
  const [row] = store.db.select().from(users).all();
  expect(row?.passwordHash).toStartWith("$argon2id$");
  expect(people.getUserByAddress(core, "ada@acme.test")).toMatchObject({ canSignIn: true });
  expect(people.getUserByAddress(core, "ada@acme.test")).not.toHaveProperty("passwordHash");
  for (const short of ["", "nine char", "👩‍👩‍👧‍👦👩"]) {
    await expect(hashNewPassword(short)).rejects.toThrow("give a password of at least 10 characters");
  }
  expect(await hashNewPassword("ten chars!")).toStartWith("$argon2id$");
  await expect(hashNewPassword("é".repeat(600))).rejects.toThrow(/give a password/);
});
