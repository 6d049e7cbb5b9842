/** The journal of a key that acts over IMAP, and taking back what it did. */
import { beforeEach, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as journal from "../../src/admin/journal.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import type { Policy } from "../../src/store/schema.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { type ImapWorld, imapWorld, uidsOf } from "../harness/servers/imap-world.ts";

let world: ImapWorld;
let keyId: string;
let client: ImapAccount;
const email = "alice@example.test";

async function signIn(policy: Policy = {}): Promise<void> {
  const { core } = world.app.opened;
  const { store } = core;
  const { userId } = world.app.owner;
  const made = store.transact((tx) =>
    developers.createKey(core, tx, { userId, name: "App", scopes: ["read", "write"], policy }),
  );
  keyId = made.id;
  client = await world.client({ email, key: made.key });
  await client.say("SELECT INBOX");
}

beforeEach(async () => {
  world = await imapWorld();
  await signIn();
});

interface Entry {
  operation: string;
  face: string;
  outcome: string;
  source: string;
  changes: number;
  reads: number | null;
}
const entries = (): Entry[] =>
  world.app.core.store.db.$client
    .query<Entry, [string]>(
      "SELECT operation, face, outcome, source, changes, reads FROM journal_entries WHERE key_id = ? ORDER BY seq",
    )
    .all(keyId);

const folders = (threadId: string): string[] =>
  world.app.core.store.db.$client
    .query<{ folder: string }, [string]>(
      "SELECT messages.folder FROM messages JOIN threads ON threads.seq = thread_seq WHERE threads.id = ? ORDER BY messages.seq",
    )
    .all(threadId)
    .map(({ folder }) => folder);

const undo = () =>
  journal.takeBackKeyChanges(world.app.opened.core, { keyId, workspaceId: world.app.owner.workspaceId } as never, 0, {
    face: "cli",
    dryRun: false,
  });

test("every change has an entry with the face `imap`; looking has one of reads", async () => {
  const ben = world.member("Ben");
  world.app.core.store.transact((tx) =>
    mailboxAdmin.grantMailboxAccess(tx, ben.mailboxId, world.app.owner.userId, "full"),
  );
  await world.arrive({ subject: "One" });
  await world.arrive({ subject: "Two" });
  await client.say("NOOP");
  const octets = "Subject: Three\r\nMessage-ID: <three@x>\r\n\r\nx\r\n";
  const deeds: [command: string, operation: string][] = [
    ["STORE 1 +FLAGS (\\Seen)", "store"],
    ["STORE 1 +FLAGS (\\Flagged)", "store"],
    ["STORE 1 +FLAGS (\\Answered)", "store"],
    ["STORE 1 +FLAGS (Work)", "store"],
    ["FETCH 2 BODY[]", "fetch"],
    ["COPY 1 Archive", "copy"],
    ["NOOP", ""],
    ["STORE 1 +FLAGS (\\Deleted)", "store"],
    ["EXPUNGE", "expunge"],
    [`APPEND INBOX {${octets.length}+}\r\n${octets}`, "append"],
    ["MOVE 1 Archive", "move"],
    ["SELECT Archive", ""],
    ["COPY 1 Shared/ben@example.test/INBOX", "copy"],
    ["MOVE 1 Shared/ben@example.test/INBOX", "move"],
    ["MOVE 1 Shared/ben@example.test/Junk", "move"],
  ];
  for (const [command, operation] of deeds) {
    const before = entries().length;
    expect([command, await client.say(command)]).toEqual([command, expect.objectContaining({ status: "OK" })]);
    const added = entries().slice(before);
    // What leaves a mailbox has an entry beside that of what comes into the other, unless it is there already.
    const expected = operation === "" ? [] : command.endsWith("Junk") ? [operation, operation] : [operation];
    expect([command, added.map((one) => one.operation)]).toEqual([command, expected]);
    for (const one of added) {
      expect(one).toMatchObject({ face: "imap", source: "127.0.0.1", outcome: "ok", changes: 1 });
    }
  }
  await client.say("FETCH 1:* (FLAGS)");
  await client.say("SEARCH ALL");
  await world.app.advance(120_000);
  const reads = entries().filter((one) => one.reads !== null);
  expect(reads.map(({ operation, face }) => [operation, face]).sort()).toEqual([
    ["fetch", "imap"],
    ["search", "imap"],
  ]);
});

test("what a key's policy refuses has an entry, and changes nothing", async () => {
  await signIn({ changesPerHour: 1 });
  await world.arrive({ subject: "One" });
  const { threadId } = await world.arrive({ subject: "Two" });
  await client.say("NOOP");
  expect(await client.say("MOVE 1 Archive")).toMatchObject({ status: "OK" });
  expect(await client.say("MOVE 1 Archive")).toMatchObject({ status: "NO", text: expect.stringContaining("[LIMIT]") });
  expect(folders(threadId)).toEqual(["inbox"]);
  expect(entries().map(({ operation, outcome }) => [operation, outcome])).toEqual([
    ["move", "ok"],
    ["move", "rate_limited"],
  ]);
});

test("what is beyond the limit of a key's policy is not begun, or taken back, which the journal tells", async () => {
  const {
    core: { store },
  } = world.app.opened;
  const ben = world.member("Ben");
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, ben.mailboxId, world.app.owner.userId, "full"));
  for (let i = 0; i < 150; i++) await world.arrive({ subject: `Mail ${i}` });
  await signIn({ changesPerHour: 120 });
  const changes = (): number[] => entries().flatMap((entry) => (entry.changes > 0 ? [entry.changes] : []));
  for (const verb of ["COPY", "MOVE"]) {
    const refused = await client.say(`${verb} 1:* Archive`);
    expect(refused).toMatchObject({ status: "NO", text: expect.stringContaining("120 changes an hour") });
    expect(changes()).toEqual([]);
  }
  const copied = await client.say("COPY 1:* Shared/ben@example.test/Archive");
  expect(copied).toMatchObject({ status: "NO", text: expect.stringContaining("120 changes an hour") });
  // Filed and taken back, one by one.
  expect(changes()).toEqual(Array(240).fill(1));
  expect(await world.mail(client, "Shared/ben@example.test/")).toEqual({});
  expect(Object.keys(await world.mail(client))).toEqual(["INBOX"]);
});

test("undo gives single messages their folders back, and an older entry its whole conversation", async () => {
  const first = await world.arrive({ subject: "Talk", messageId: "<one@x>" });
  await world.arrive({ subject: "Re: Talk", headers: ["In-Reply-To: <one@x>"] });
  const { threadId } = first;
  expect(folders(threadId)).toEqual(["inbox", "inbox"]);
  await client.say("NOOP");
  await client.say(`UID MOVE ${(await uidsOf(client, "Talk"))[0]} Archive`);
  expect(folders(threadId)).toEqual(["archive", "inbox"]);
  // Another key moves the other one, over IMAP, too.
  const earlier = keyId;
  await signIn();
  await client.say(`UID MOVE ${(await uidsOf(client, "Talk"))[0]} Trash`);
  expect(folders(threadId)).toEqual(["archive", "trash"]);
  await undo();
  expect(folders(threadId)).toEqual(["archive", "inbox"]);
  const { store } = world.app.core;
  // An entry from before messages had folders of their own says none.
  store.db.$client.run(
    `UPDATE key_changes SET before = '{"folder":"inbox","snoozedUntil":null}' WHERE key_id = ? AND field = 'folder'`,
    [earlier],
  );
  keyId = earlier;
  await undo();
  expect(folders(threadId)).toEqual(["inbox", "inbox"]);
});

test("undo brings back a draft of which a key saved another version", async () => {
  const octets = (id: string) => `Subject: Draft ${id}\r\nMessage-ID: <${id}@app>\r\n\r\nx\r\n`;
  const draft = async (id: string) => client.say(`APPEND Drafts (\\Draft) {${octets(id).length}+}\r\n${octets(id)}`);
  await draft("one");
  await client.say("SELECT Drafts");
  await draft("two");
  await client.say("STORE 1 +FLAGS (\\Deleted)");
  expect((await client.say("EXPUNGE")).status).toBe("OK");
  expect(await world.mail(client)).toEqual({ Drafts: ["Draft two"], Trash: ["Draft one"] });
  expect(await undo()).toMatchObject({ threads: 1, leftChanges: 0 });
  expect(await world.mail(client)).toEqual({ Drafts: ["Draft one", "Draft two"] });
});

test("undo counts and names a conversation that a key moved into another mailbox", async () => {
  const {
    core: { store },
  } = world.app.opened;
  const ben = world.member("Ben");
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, ben.mailboxId, world.app.owner.userId, "full"));
  const { threadId } = await world.arrive({ subject: "Carried" });
  await client.say("NOOP");
  expect((await client.say("MOVE 1 Shared/ben@example.test/Archive")).status).toBe("OK");
  expect(await undo()).toMatchObject({
    ...{ threads: 0, changes: 0, leftChanges: 1 },
    left: [{ threadId, field: "folder", reason: "deleted" }],
  });
});
