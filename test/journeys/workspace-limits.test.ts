/** The operator limits what a workspace may have: mailboxes, and bytes of mail in all of them. */
import { describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import * as removals from "../../src/admin/removals.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { mailboxes } from "../../src/store/schema.ts";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { openSetUp } from "../harness/servers/terminal.ts";

const ALICE = "alice@example.test";
const ADMIN = "/api/admin/v1";

const limit = ({ core: { store }, owner }: Booted, limits: Parameters<typeof workspaceAdmin.setWorkspaceLimits>[2]) =>
  store.transact((tx) => workspaceAdmin.setWorkspaceLimits(tx, owner.workspaceId, limits));

async function deliver({ mx }: Booted, text: string, to = ALICE): Promise<string> {
  const sender = mailer(mx);
  const said = await sender
    .send({ from: "carol@remote.example", to }, letter({ to, subject: "Hello", text }))
    .then(({ reply }) => reply)
    .catch((error) => error.response);
  sender.close();
  return said;
}

/** Both counts of the workspace's bytes: the one that is kept, and that of its messages. */
function bytesOf({ core, core: { store }, owner }: Booted): [kept: number, counted: number] {
  const counted = store.db.$client
    .query<{ n: number }, [string]>(
      `SELECT coalesce(sum(bytes), 0) AS n FROM mailbox_usage JOIN mailboxes ON mailboxes.id = mailbox_id WHERE workspace_id = ?`,
    )
    .get(owner.workspaceId);
  return [workspaceAdmin.getWorkspaceUse(core, owner.workspaceId).usedBytes, counted?.n ?? -1];
}

describe("further bytes", () => {
  const world = () => boot({ MAILROOM_IMAPS: "127.0.0.1:0" }, zone({ "remote.example": "SERVFAIL" }));

  test("are refused on every road once the workspace has as many as it may, whichever mailbox has them", async () => {
    const it = await world();
    const { api, owner, opened } = it;
    const { core } = opened;
    const { store } = core;
    const second = store.transact((tx) =>
      mailboxAdmin.addMailbox(core, tx, {
        workspaceId: owner.workspaceId,
        address: "team@example.test",
        name: "Team",
        ownerId: owner.userId,
      }),
    );
    expect(await deliver(it, "x".repeat(5_000), "team@example.test")).toStartWith("250");
    limit(it, { mostBytes: bytesOf(it)[0] + 100 });
    const long = "y".repeat(2_000);

    expect(await deliver(it, long)).toStartWith("452 4.2.2");
    // No quota holds for it, but the operator's limit does.
    expect(await deliver(it, long, "postmaster@example.test")).toStartWith("452 4.2.2");
    const message = { from: ALICE, to: "dan@remote.example", subject: "Out", text: long };
    const refusals = [await api.post("/send", message), await api.post("/api/ext/v1/drafts", message)];
    for (const { status, body } of refusals) {
      expect([status, body]).toEqual([
        507,
        {
          code: "insufficient_storage",
          error: "The workspace is out of storage: 100 bytes are left, and the message does not fit",
        },
      ]);
    }
    const client = await imapAccount(Number(it.ready.imaps?.split(":")[1]), ALICE, owner.apiKey);
    const octets = letter({ text: long });
    const appended = await client.say(`APPEND INBOX {${octets.length}+}\r\n${octets}`);
    expect([appended.status, appended.text]).toEqual(["NO", expect.stringContaining("[OVERQUOTA]")]);

    // What is removed makes room, in any mailbox.
    const [{ id } = { id: "" }] = store.db.$client
      .query<{ id: string }, [string]>("SELECT id FROM threads WHERE mailbox_id = ?")
      .all(second);
    expect((await api.patch(`/threads/${id}`, { folder: "trash" })).status).toBe(200);
    store.transact((tx) => removals.beginMailboxRemoval(tx, second));
    void removals.finishMailboxRemoval(core, second);
    await it.advance(60_000);
    expect(await deliver(it, long)).toStartWith("250");
    const [kept, counted] = bytesOf(it);
    expect(kept).toBe(counted);
  });

  test("of another workspace are its own, and no limit is none", async () => {
    const it = await world();
    const { core } = it.opened;
    const { store } = core;
    const other = store.transact((tx) => {
      const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, "Other");
      domains.markDomainVerified(core, tx, domains.addDomain(core, tx, workspaceId, "other.test", []).id);
      people.addUser(core, tx, { workspaceId, email: "eve@other.test", name: "Eve", role: "owner", ownMailbox: true });
      return workspaceId;
    });
    store.transact((tx) => workspaceAdmin.setWorkspaceLimits(tx, other, { mostBytes: 0 }));
    expect(await deliver(it, "x", "eve@other.test")).toStartWith("452 4.2.2");
    expect(await deliver(it, "x")).toStartWith("250");
    store.transact((tx) => workspaceAdmin.setWorkspaceLimits(tx, other, { mostBytes: null }));
    expect(await deliver(it, "x", "eve@other.test")).toStartWith("250");
    expect(workspaceAdmin.getWorkspaceUse(core, other)).toMatchObject({ mailboxes: 1 });
  });

  test("leave a mailbox its own quota where that is less", async () => {
    const it = await world();
    it.core.store.transact((tx) => tx.update(mailboxes).set({ quotaBytes: 0 }).run());
    limit(it, { mostBytes: 10 ** 9 });
    const { status, body } = await it.api.post<{ error: string }>("/send", {
      ...{ from: ALICE, to: "dan@remote.example", subject: "Out", text: "x" },
    });
    expect([status, body.error]).toEqual([507, expect.stringContaining(`${ALICE} is out of storage`)]);
  });
});

test("a further mailbox is refused, with a person's own as well", async () => {
  const it = await boot();
  const { core } = it.opened;
  const { store } = core;
  const { key } = store.transact((tx) =>
    developers.createKey(core, tx, { userId: it.owner.userId, name: "Admin", scopes: ["admin"] }),
  );
  const admin = it.apiWith(key);
  limit(it, { mostMailboxes: 2 });
  expect((await admin.post(`${ADMIN}/mailboxes`, { address: "a@example.test", name: "A" })).status).toBe(201);
  for (const [path, body] of [
    ["mailboxes", { address: "b@example.test", name: "B" }],
    ["people", { email: "ben@example.test", name: "Ben", role: "member", mailbox: true }],
  ] as const) {
    const refused = await admin.post<{ code: string; error: string }>(`${ADMIN}/${path}`, body);
    expect([refused.status, refused.body.code, refused.body.error]).toEqual([
      422,
      "unprocessable",
      expect.stringContaining("the workspace may have 2 mailboxes, and has them already"),
    ]);
  }
  expect(
    (await admin.post(`${ADMIN}/people`, { email: "ben@example.test", name: "Ben", role: "member", mailbox: false }))
      .status,
  ).toBe(201);
  limit(it, { mostMailboxes: 3 });
  expect((await admin.post(`${ADMIN}/mailboxes`, { address: "b@example.test", name: "B" })).status).toBe(201);
});

test("mailroom workspace limit sets, shows and lifts it", async () => {
  const { ask, say } = await openSetUp();
  const [{ name = "" } = {}] = await ask<{ name: string }[]>("workspace", "list");
  expect(await ask("workspace", "list")).toMatchObject([
    { mailboxes: 1, usedBytes: 0, mostMailboxes: null, mostBytes: null },
  ]);
  expect(await ask("workspace", "limit", name, "--mailboxes", "1", "--bytes", "5000")).toMatchObject({
    mostMailboxes: 1,
    mostBytes: 5000,
  });
  expect(await ask("workspace", "limit", name, "--bytes", "1.5 GiB")).toMatchObject({ mostBytes: 1_610_612_736 });
  expect(await ask("workspace", "limit", name, "--bytes", "5kB")).toMatchObject({ mostBytes: 5000 });
  expect(await ask("mailbox", "quota", "ada@acme.test", "1GB")).toMatchObject({ quotaBytes: 1_000_000_000 });
  expect(await say("mailbox", "add", "more@acme.test", "--name", "More")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("the workspace may have 1 mailboxes"),
  });
  expect(await ask("workspace", "limit", name, "--mailboxes", "off")).toMatchObject({
    mostMailboxes: null,
    mostBytes: 5000,
  });
  await ask("mailbox", "add", "more@acme.test", "--name", "More");
  expect(await ask("workspace", "limit", name)).toMatchObject({ mailboxes: 2, mostBytes: 5000 });
  for (const bad of ["-1", "1.5", "many", "5 TB", "99999999999999999999"]) {
    expect([bad, (await say("workspace", "limit", name, `--bytes=${bad}`)).exitCode]).toEqual([bad, 2]);
  }
  expect(await say("workspace", "limit", "Nobody's", "--bytes", "1")).toMatchObject({ exitCode: 1 });
});
