import { describe, expect, test } from "bun:test";
import { findCaller } from "../../src/access/credentials.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { setUpFirstWorkspace } from "../../src/admin/setup.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { openInMemory } from "../harness/servers/core.ts";

const openEmpty = () => openInMemory({ MAILROOM_HOSTNAME: "mail.acme.test" });

const GIVEN = { domain: "Acme.test", email: "Ada@acme.TEST", name: "Ada", password: "correct horse" };

test("setting up makes a workspace with its domain, owner, mailbox and key, once", async () => {
  const parts = openEmpty();
  const made = await setUpFirstWorkspace(parts.core, GIVEN);
  expect(made.address).toBe("ada@acme.test");
  expect(workspaceAdmin.listWorkspaces(parts.core)).toMatchObject([{ id: made.workspaceId, name: "acme.test" }]);
  expect(people.listUsers(parts.core)).toMatchObject([{ id: made.userId, role: "owner", canSignIn: true }]);
  expect(mailboxAdmin.listMailboxes(parts.core)).toMatchObject([{ id: made.mailboxId, ownerId: made.userId }]);
  expect(findCaller(parts.core.store.db, made.apiKey)).toMatchObject({
    userId: made.userId,
    scopes: new Set(["read", "send", "write"]),
  });
  expect(made.dns.map(({ purpose }) => purpose)).toEqual(["mx", "spf", "dkim", "dkim", "dmarc", "ownership"]);
  await expect(setUpFirstWorkspace(parts.core, { ...GIVEN, workspace: "Other" })).rejects.toThrow(
    /there is a workspace already/,
  );
});

test("two at once make one workspace", async () => {
  const parts = openEmpty();
  const outcomes = await Promise.allSettled([
    setUpFirstWorkspace(parts.core, GIVEN),
    setUpFirstWorkspace(parts.core, { ...GIVEN, workspace: "Second" }),
  ]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect(workspaceAdmin.listWorkspaces(parts.core)).toHaveLength(1);
});

test.each([
  [{ domain: "acme" }, /"acme" is not a domain/],
  [{ email: "ada@other.test" }, /ada@other\.test is not at acme\.test/],
  [{ email: "ada" }, /"ada" is not an address/],
  [{ email: "ada+x@acme.test" }, /has a tag/],
  [{ name: " " }, /a name of 1 to 120/],
  [{ password: "" }, /give a password/],
  [{ workspace: "" }, /give the workspace a name/],
])("a refused setup leaves nothing: %p", async (wrong, says) => {
  const parts = openEmpty();
  await expect(setUpFirstWorkspace(parts.core, { ...GIVEN, ...wrong })).rejects.toThrow(says);
  expect(workspaceAdmin.listWorkspaces(parts.core)).toEqual([]);
  expect(people.listUsers(parts.core)).toEqual([]);
});

describe("the token of the first run", () => {
  test("only the last one issued is valid", () => {
    const { firstRun } = openEmpty();
    expect(["", "undefined", "x".repeat(43)].map(firstRun.admits)).toEqual([false, false, false]);
    const [old = "", token = ""] = [firstRun.issueToken(), firstRun.issueToken()];
    expect(token).toMatch(/^[A-Za-z0-9]{43}$/);
    expect([old, token, `${token}x`, ""].map(firstRun.admits)).toEqual([false, true, false, false]);
  });

  test("it is used up by setting up, in the browser or at the command line, and no other is issued", async () => {
    for (const byCommand of [true, false]) {
      const parts = openEmpty();
      const { firstRun } = parts;
      const token = firstRun.issueToken() ?? "";
      expect([firstRun.isDue(), firstRun.admits(token)]).toEqual([true, true]);
      await (byCommand ? setUpFirstWorkspace(parts.core, GIVEN) : firstRun.setUp(GIVEN));
      expect([firstRun.isDue(), firstRun.admits(token), firstRun.issueToken()]).toEqual([false, false, undefined]);
      await expect(firstRun.setUp({ ...GIVEN, workspace: "Again" })).rejects.toThrow(/there is a workspace already/);
    }
  });

  test("two at once make one workspace", async () => {
    const { firstRun, core } = openEmpty();
    firstRun.issueToken();
    const outcomes = await Promise.allSettled([
      firstRun.setUp(GIVEN),
      firstRun.setUp({ ...GIVEN, workspace: "Second" }),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(workspaceAdmin.listWorkspaces(core)).toHaveLength(1);
  });
});
