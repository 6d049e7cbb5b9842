/** The commands and their documents (rules: Commands), in one process; test/cli/process.system.test.ts runs real ones. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createAppPassword } from "../../src/access/app-passwords.ts";
import { findCaller } from "../../src/access/credentials.ts";
import { openSignInServices } from "../../src/access/identity.ts";
import { generateTotpSecret } from "../../src/access/second-factor.ts";
import { startSession } from "../../src/access/sessions.ts";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import { appPasswords, sessions, users } from "../../src/store/schema.ts";
import { openOptions, SETTINGS } from "../../src/store/settings.ts";
import { openStore } from "../../src/store/store.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Zone, zone, zoneOf } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";
import { openSetUp, openTerminal, SETUP } from "../harness/servers/terminal.ts";

interface Named {
  id: string;
  address: string;
  workspace: string;
}

test("setup prints exactly what is documented (rules: Setup)", async () => {
  const { ask } = openTerminal();
  const made = await ask<{ dns: object[]; password: string }>(...SETUP);
  expect(Object.keys(made)).toEqual(["workspaceId", "userId", "mailboxId", "address", "apiKey", "password", "dns"]);
  expect(made).toMatchObject({
    workspaceId: expect.stringMatching(/^wsp_/),
    userId: expect.stringMatching(/^usr_/),
    mailboxId: expect.stringMatching(/^mbx_/),
    address: "ada@acme.test",
    apiKey: expect.stringMatching(/^mr_[A-Za-z0-9]{40,}$/),
    password: expect.stringMatching(/^[A-Za-z0-9]{20}$/),
  });
  for (const record of made.dns) expect(Object.keys(record)).toEqual(["type", "name", "value", "purpose"]);
  expect(await ask("key", "list")).toMatchObject([{ user: "ada@acme.test", scopes: ["read", "send", "write"] }]);
});

test("setup takes the password and the name of the workspace", async () => {
  const { ask } = openTerminal({ stdin: "correct horse\nnot this\n" });
  const made = await ask(...SETUP, "--workspace", "Acme", "--password-stdin");
  expect(made).not.toHaveProperty("password");
  expect(await ask<Named[]>("workspace", "list")).toMatchObject([
    {
      id: made.workspaceId,
      name: "Acme",
      state: "active",
      paused: null,
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    } as never,
  ]);
  expect(await ask("user", "list")).toMatchObject([{ id: made.userId, canSignIn: true }]);
});

test("a second factor is shown, and reset", async () => {
  const { data, ask, say } = openTerminal();
  const { userId } = await ask<{ userId: string }>(...SETUP);
  const totp = ["user", "totp", "ada@acme.test"] as const;
  expect(await ask(...totp)).toEqual({ id: userId, address: "ada@acme.test", secondFactor: false });
  const runtime = fakeRuntime();
  const store = openStore({ folder: data, runtime });
  const core = coreOver(store, runtime);
  const { secondFactors } = openSignInServices({ ...core, site: { ...core.site, folder: data } });
  const secret = generateTotpSecret(runtime);
  const code = computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(runtime.now()));
  store.transact((tx) => secondFactors.enrol(tx, userId, { secret, code }));
  store.close();
  expect([await ask(...totp), await ask("user", "list")]).toMatchObject([
    { secondFactor: true },
    [{ secondFactor: true }],
  ]);
  expect(await ask(...totp, "--reset")).toMatchObject({ secondFactor: false });
  expect(await say(...totp, "--reset")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("no second factor"),
  });
});

test("a password is replaced: read or generated; sessions and app passwords end, and API keys unless they are kept", async () => {
  const { data, ask, say } = openTerminal({ stdin: "another one\n" });
  const { userId: id, apiKey } = await ask<{ userId: string; apiKey: string }>(...SETUP);
  const look = <T>(work: (store: ReturnType<typeof openStore>) => T): T => {
    const store = openStore({ folder: data, runtime: fakeRuntime() });
    const seen = work(store);
    store.close();
    return seen;
  };
  const { db: before } = look((store) => {
    store.transact((tx) => {
      createAppPassword(tx, fakeRuntime(), { userId: id, name: "Phone", access: "all" });
      startSession(tx, fakeRuntime(), { userId: id, userAgent: "", source: "", persistent: true });
    });
    return { db: store.db.select().from(users).get()?.passwordHash };
  });
  const replace = ["user", "password", "ada@acme.test"] as const;
  expect(await ask(...replace, "--password-stdin", "--keep-keys")).toEqual({
    id,
    address: "ada@acme.test",
    ended: { appPasswords: 1, keys: 0 },
  } as never);
  look(({ db }) => {
    expect([db.select().from(sessions).all(), db.select().from(appPasswords).all()]).toEqual([[], []]);
    expect(findCaller(db, apiKey)).toMatchObject({ userId: id });
    expect(db.select().from(users).get()?.passwordHash).not.toBe(before as string);
  });
  const made = await ask(...replace);
  expect(made).toEqual({
    id,
    address: "ada@acme.test",
    password: expect.stringMatching(/^[A-Za-z0-9]{20}$/),
    ended: { appPasswords: 0, keys: 1 },
  } as never);
  look(({ db }) => expect(findCaller(db, apiKey)).toBeUndefined());
  expect(await say("user", "password", "eve@acme.test")).toMatchObject({ exitCode: 1, stdout: "" });
  expect(await openTerminal({ data }).say(...replace, "--password-stdin")).toMatchObject({ exitCode: 1, stdout: "" });
});

test("what a lock ended is listed for people, one thing a line", async () => {
  const { say, ask } = await openSetUp();
  await ask("user", "add", "bob@acme.test", "--name", "Bob", "--role", "member");
  const ids: string[] = [];
  for (const name of ["One", "Two"]) {
    const made = await ask("key", "create", "--user", "bob@acme.test", "--name", name, "--scopes", "read");
    ids.push((made as unknown as { id: string }).id);
  }
  const { stdout } = await say("user", "lock", "bob@acme.test");
  const listed =
    /^ended:\n {2}sessions: -\n {2}appPasswords: -\n {2}keys:\n((?: {4}.*\n)+) {2}grants: -\n {2}forwarding: -\n$/m;
  expect(listed.exec(stdout)?.[1]?.trim().split(/\n */).sort()).toEqual([`${ids[0]} One`, `${ids[1]} Two`].sort());
});

test("an empty password is refused, and no workspace is made", async () => {
  const { say, ask } = openTerminal();
  const said = await say(...SETUP, "--password-stdin");
  expect(said).toMatchObject({ exitCode: 1, stdout: "" });
  expect(said.stderr).toContain("give a password");
  expect(await ask<Named[]>("workspace", "list")).toEqual([]);
});

test("before setup, commands that add are refused", async () => {
  const { say } = openTerminal();
  const said = await say("domain", "add", "acme.test");
  expect(said).toMatchObject({ exitCode: 1, stdout: "" });
  expect(said.stderr).toContain("there is no workspace yet");
});

test("people, mailboxes, aliases, shares and quotas, as documents", async () => {
  const { ask, say } = await openSetUp({ stdin: "a long password\n" });
  const bob = await ask("user", "add", "Bob@acme.test", "--name", "Bob", "--role", "member", "--password-stdin");
  expect(bob).toEqual({
    id: expect.stringMatching(/^usr_/),
    address: "bob@acme.test",
    name: "Bob",
    role: "member",
    workspace: "acme.test",
    canSignIn: true,
    locked: false,
    invitedUntil: null,
    secondFactor: false,
    createdAt: expect.any(String),
    mailboxId: expect.stringMatching(/^mbx_/),
  });
  expect(await ask("user", "role", "bob@acme.test", "admin")).toMatchObject({ id: bob.id, role: "admin" });

  const team = await ask("mailbox", "add", "team@acme.test", "--name", "Team", "--owner", "bob@acme.test");
  expect(team).toEqual({
    id: expect.stringMatching(/^mbx_/),
    address: "team@acme.test",
    name: "Team",
    workspace: "acme.test",
    owner: "bob@acme.test",
    aliases: [],
    catchAlls: [],
    grants: [],
    quotaBytes: null,
    removing: false,
    lost: false,
    usedBytes: 0,
    state: "active",
    paused: null,
    expiresAt: null,
    createdAt: expect.any(String),
  });
  await ask("mailbox", "alias", "team@acme.test", "add", "sales@acme.test");
  await ask("mailbox", "alias", "team@acme.test", "add", "*@acme.test");
  await ask("mailbox", "grant", "team@acme.test", "--to", "ada@acme.test", "--access", "send");
  expect(await ask("mailbox", "quota", "team@acme.test", "1000")).toMatchObject({
    id: team.id,
    aliases: ["sales@acme.test"],
    catchAlls: ["*@acme.test"],
    grants: [{ user: "ada@acme.test", access: "send" }],
    quotaBytes: 1000,
  });
  await ask("mailbox", "alias", "team@acme.test", "remove", "sales@acme.test");
  await ask("mailbox", "revoke", "team@acme.test", "--from", "ada@acme.test");
  expect(await ask("mailbox", "quota", "team@acme.test", "default")).toMatchObject({
    aliases: [],
    grants: [],
    quotaBytes: null,
  });

  expect(await ask("user", "remove", "bob@acme.test")).toEqual({
    id: bob.id,
    address: "bob@acme.test",
    removed: true,
  });
  const left = await ask<Named[]>("mailbox", "list");
  expect(left[0]).toMatchObject({ expiresAt: null });
  expect(left.map(({ address }) => address)).toEqual(["ada@acme.test", "bob@acme.test", "team@acme.test"]);
  expect(left.slice(1)).toMatchObject([{ owner: null }, { owner: null }]);
  expect(await ask("mailbox", "remove", "team@acme.test")).toEqual({
    id: team.id,
    address: "team@acme.test",
    removed: true,
  });
  expect((await say("mailbox", "list")).stdout.split("\n")[1]).toMatch(/^mbx_\w+ {2}ada@acme\.test {2}Ada /);
});

test("keys are shown once and revoked", async () => {
  const { ask, say } = await openSetUp();
  const made = await ask("key", "create", "--user", "ada@acme.test", "--name", "CI", "--scopes", "write,read");
  expect(made).toEqual({
    id: expect.stringMatching(/^key_/),
    key: expect.stringMatching(/^mr_/),
    name: "CI",
    user: "ada@acme.test",
    scopes: ["write", "read"],
  });
  expect((await say("key", "list")).stdout).not.toContain(made.key as string);
  expect(await ask("key", "revoke", made.id as string)).toEqual({ id: made.id, state: "revoked" });
  const listed = await ask<{ id: string; state: string }[]>("key", "list");
  expect(listed.find(({ id }) => id === made.id)).toMatchObject({ name: "CI", state: "revoked" });
});

test("with several workspaces, additions need --workspace, and lists take it", async () => {
  const { ask, say } = await openSetUp();
  await ask("workspace", "add", "Beta");
  const noSuchOwner = ["mailbox", "add", "x@beta.test", "--name", "X", "--owner", "ghost@beta.test"];
  for (const command of [["domain", "add", "beta.test"], noSuchOwner]) {
    const unsure = await say(...command);
    expect(unsure).toMatchObject({ exitCode: 2, stdout: "" });
    expect(unsure.stderr).toContain("name one with --workspace NAME");
  }
  expect(await ask("domain", "add", "beta.test", "--workspace", "beta")).toMatchObject({ workspace: "Beta" });
  // The domain says which.
  await ask("user", "add", "bea@beta.test", "--name", "Bea", "--role", "owner");
  await ask("key", "create", "--user", "bea@beta.test", "--name", "K", "--scopes", "read");

  for (const what of ["user", "mailbox"]) {
    const all = await ask<Named[]>(what, "list");
    expect(all.map(({ address, workspace }) => [address, workspace])).toEqual([
      ["ada@acme.test", "acme.test"],
      ["bea@beta.test", "Beta"],
    ]);
    expect(await ask<Named[]>(what, "list", "--workspace", "Beta")).toEqual(all.slice(1));
    expect((await say(what, "remove", "bea@beta.test", "--workspace", "acme.test")).exitCode).toBe(1);
  }
  expect(await ask<Named[]>("domain", "list", "--workspace", "Beta")).toMatchObject([{ domain: "beta.test" }]);
  expect(await ask<Named[]>("key", "list", "--workspace", "Beta")).toMatchObject([{ user: "bea@beta.test" }]);
  const across = await say("mailbox", "grant", "ada@acme.test", "--to", "bea@beta.test", "--access", "view");
  expect(across).toMatchObject({ exitCode: 1, stdout: "" });
});

test("a domain that two workspaces claim needs --workspace until one has verified it", async () => {
  const { ask, say } = await openSetUp();
  await ask("workspace", "add", "Beta");
  await ask("domain", "add", "shop.test", "--workspace", "acme.test");
  await ask("domain", "add", "shop.test", "--workspace", "Beta");
  for (const name of ["acme.test", "Beta"])
    await ask("mailbox", "add", "info@shop.test", "--name", "Info", "--workspace", name);
  for (const command of [
    ["domain", "verify", "shop.test", "--skip-dns"],
    ["domain", "dns", "shop.test"],
    ["domain", "remove", "shop.test"],
  ]) {
    const { exitCode, stderr } = await say(...command);
    expect([exitCode, stderr]).toEqual([1, "mailroom: several workspaces claim shop.test: name the workspace\n"]);
  }
  expect((await say("mailbox", "add", "x@shop.test", "--name", "X")).stderr).toContain(
    "name one with --workspace NAME",
  );
  expect((await say("mailbox", "pause", "info@shop.test", "--reason", "R")).stderr).toContain(
    "several workspaces have a mailbox info@shop.test",
  );
  expect(await ask("domain", "verify", "shop.test", "--skip-dns", "--workspace", "Beta")).toMatchObject({
    workspace: "Beta",
    state: "verified",
    takesMail: true,
  });
  expect(
    (await ask<{ domain: string; workspace: string; state: string }[]>("domain", "list"))
      .filter(({ domain }) => domain === "shop.test")
      .map(({ workspace, state }) => [workspace, state]),
  ).toEqual([
    ["Beta", "verified"],
    ["acme.test", "lost"],
  ]);
  const rows = (await say("mailbox", "list")).stdout.split("\n").filter((row) => row.includes("info@shop.test"));
  expect(rows.map((row) => row.split(/ {2,}/).slice(-3).join(" ")).sort()).toEqual([
    "active false Beta",
    "active true acme.test",
  ]);
  expect(await ask("mailbox", "pause", "info@shop.test", "--reason", "R")).toMatchObject({ workspace: "Beta" });
  expect(await ask("mailbox", "add", "x@shop.test", "--name", "X")).toMatchObject({ workspace: "Beta" });
  const late = await say("domain", "verify", "shop.test", "--skip-dns", "--workspace", "acme.test");
  expect([late.exitCode, late.stderr]).toEqual([
    1,
    "mailroom: shop.test was verified by another workspace of this server\n",
  ]);
});

test("a domain is added, looked up and verified", async () => {
  const published: Zone = {};
  const { ask, say } = await openSetUp({ runtime: { dns: zone(published) } });
  const added = await ask<{ id: string; dns: { type: string; name: string; value: string }[] }>(
    "domain",
    "add",
    "shop.test",
  );
  expect(added).toMatchObject({
    id: expect.stringMatching(/^dom_/),
    domain: "shop.test",
    state: "unverified",
  } as never);
  expect((await say("domain", "add", "other.test")).stdout).toContain(
    "\n\nOnce they are published: mailroom domain verify",
  );
  await ask("domain", "remove", "other.test");
  expect(await ask<object[]>("domain", "dns", "shop.test")).toEqual(
    added.dns.map((record) => ({ id: `${record.type} ${record.name}`, ...record })),
  );

  const early = await say("domain", "verify", "shop.test", "--json");
  expect(early.exitCode).toBe(1);
  expect(early.stderr).toMatch(
    /^mailroom: not all DNS records of shop\.test are there:\n {2}mx: MX shop\.test \(missing\)\n/,
  );
  expect(JSON.parse(early.stdout)).toMatchObject({
    id: added.id,
    state: "unverified",
    missing: added.dns.map(({ type, name }) => `${type} ${name}`),
  });

  Object.assign(published, zoneOf(added.dns));
  expect(await ask("domain", "verify", "shop.test")).toMatchObject({ state: "verified", missing: [] });
  expect((await say("domain", "verify", "shop.test")).stdout).toMatch(/^id: dom_.*\n[\s\S]*\ndkim +found +TXT /);
  expect(await ask("domain", "verify", "acme.test", "--skip-dns")).toMatchObject({
    domain: "acme.test",
    state: "verified",
    verifiedAt: expect.any(String),
  });
  expect(await ask("domain", "remove", "shop.test")).toEqual({ id: added.id, domain: "shop.test", removed: true });
  expect(await ask<object[]>("domain", "list")).toMatchObject([{ domain: "acme.test", state: "verified" }]);
});

test("a secret is read from standard input; as an argument it is taken with a warning, and printed nowhere", async () => {
  const { data, say } = openTerminal({ stdin: "smtp://us:hunter2@relay.example:587\nnot this\n" });
  const shown = "smtp://us:***@relay.example:587";
  const read = await say("settings", "set", "smtp.relay", "-", "--json");
  expect([read.exitCode, read.stderr, JSON.parse(read.stdout)]).toEqual([
    0,
    "",
    expect.objectContaining({ name: "smtp.relay", value: shown }),
  ]);
  const kept = () => {
    const store = openStore({ folder: data, runtime: fakeRuntime() });
    const value = openOptions(store).get("smtp.relay");
    store.close();
    return value;
  };
  expect(kept()).toBe("smtp://us:hunter2@relay.example:587");
  for (const [name, value] of [
    ["smtp.relay", "smtp://us:hunter3@relay.example"],
    ["search.meilisearchKey", "hunter3"],
  ] as const) {
    const given = await say("settings", "set", name, value);
    expect([given.exitCode, given.stderr]).toEqual([0, expect.stringContaining("standard input")]);
  }
  expect(kept()).toBe("smtp://us:hunter3@relay.example");
  for (const [name, value] of [
    ["smtp.relay", "smtp://us:***@relay.example"],
    ["smtp.relay", "none"],
    ["smtp.outboundPort", "2525"],
  ] as const) {
    expect(await say("settings", "set", name, value)).toMatchObject({ exitCode: 0, stderr: "" });
  }
  const refused = await say("settings", "set", "smtp.relay", "smtp://us:hunter4@relay.example/x");
  expect([refused.exitCode, refused.stderr]).toEqual([1, expect.not.stringContaining("hunter4")]);
  await say("settings", "set", "smtp.relay", "-");
  for (const argv of [["list"], ["list", "--json"], ["get", "smtp.relay"], ["get", "smtp.relay", "--json"]]) {
    const said = await say("settings", ...argv);
    expect([said.stdout.includes(shown), said.stdout.includes("hunter")]).toEqual([true, false]);
  }
});

test("settings are listed, read, changed and reset", async () => {
  const { ask, say } = openTerminal();
  const all = await ask<{ id: string; name: string }[]>("settings", "list");
  expect(all.map(({ name }) => name)).toEqual(Object.keys(SETTINGS));
  expect(all[0]).toEqual({
    id: "api.keyRequestsPerMinute",
    name: "api.keyRequestsPerMinute",
    value: "120",
    default: "120",
    description: expect.any(String),
  } as never);
  expect(await ask("settings", "set", "smtp.retrySeconds", "1,2")).toMatchObject({ value: "1,2" });
  expect((await say("settings", "get", "smtp.retrySeconds")).stdout).toBe("1,2\n");
  expect(await ask("settings", "reset", "smtp.retrySeconds")).toMatchObject({ value: expect.stringMatching(/^60,/) });
});

test("what a terminal would act on is not printed, in answers and refusals", async () => {
  const { say } = openTerminal({ interrupted: new Promise(() => {}) });
  const { stderr } = await say("domain", "verify", "never\u001b]0;owned.test");
  expect(stderr).not.toContain("\u001b");
  await say(...SETUP);
  const folder = temporaryFolder();
  writeFileSync(join(folder, "re\u001b[31md\u202e.eml.gz"), Buffer.from([0x1f, 0x8b]));
  const { stdout } = await say("import", "--mailbox", "ada@acme.test", folder);
  expect(stdout).toContain("re\ufffd[31md\ufffd.eml.gz");
});
