/** Rows that IMAP keeps of a mailbox, and of its people's apps, go with it: every table that there is is counted. */
import { describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { createAppPassword } from "../../src/access/app-passwords.ts";
import * as domains from "../../src/admin/domains.ts";
import * as erasure from "../../src/admin/erasure.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { removeWorkspace } from "../../src/moving/remove.ts";
import { workspaces } from "../../src/store/schema.ts";
import { tablesOf } from "../harness/data/table-rows.ts";
import { letter } from "../harness/mail/mail.ts";
import { type ImapWorld, imapWorld } from "../harness/servers/imap-world.ts";

/** Tables that IMAP keeps of people and their mail, even those that are not made yet. */
const KEPT = /^(?:imap_|app_passwords$|discarded_messages$)/;

/** Rows of every table but the one that tells programs which follow that conversations are gone. */
function countsIn({ app }: ImapWorld): Record<string, number> {
  const { $client } = app.core.store.db;
  return Object.fromEntries(
    tablesOf($client)
      .filter((table) => table !== "thread_changes")
      .map((table) => {
        const row = $client.query<{ n: number }, []>(`SELECT count(*) AS n FROM "${table}"`).get();
        return [table, row?.n ?? 0];
      }),
  );
}

/** An app password of a person is used to read, mark, label, move, append and delete mail. */
async function liveWith({ app, arrive, client }: ImapWorld, who: { email: string; userId: string }): Promise<void> {
  for (const subject of ["One", "Two"]) await arrive({ subject }, who.email, { withoutOctets: true });
  for (const subject of ["Three", "Four"]) await arrive({ subject }, who.email);
  const { password } = app.core.store.transact((tx) =>
    createAppPassword(tx, app.runtime, { userId: who.userId, name: "Phone", access: "all" }),
  );
  app.core.store.transact((tx) => people.setLabelFolders(tx, who.userId, true));
  const phone = await client({ email: who.email, key: password });
  const sent = letter({ from: who.email, to: "x@remote.example", headers: ["Bcc: y@remote.example"] });
  const text = sent.replaceAll("\n", "\r\n");
  for (const command of [
    "SELECT INBOX",
    "FETCH 1:* (BODY.PEEK[])",
    "STORE 1 +FLAGS (\\Answered work)",
    "MOVE 2 Trash",
    "MOVE 2 Archive",
    `APPEND Sent {${text.length}+}\r\n${text}`,
    `APPEND Drafts (\\Draft) {${text.length}+}\r\n${text}`,
    "SELECT Sent",
    "FETCH 1:* (BODY.PEEK[])",
    "SELECT Labels/work",
    "FETCH 1:* (FLAGS)",
    "STORE 1 +FLAGS (\\Deleted)",
    "SELECT INBOX",
    "STORE 2 +FLAGS (work)",
    "SELECT Labels/work",
    "EXPUNGE",
    "SELECT Trash",
  ]) {
    expect([command, (await phone.say(command)).status]).toEqual([command, "OK"]);
  }
  phone.end();
  // Jobs make what they keep.
  await app.advance(60_000);
  // An older version had told an app of one whose octets cannot be made.
  const { $client } = app.core.store.db;
  $client.run("INSERT INTO octets_waiting (message_seq, filed_at, lost) SELECT max(seq), 0, 1 FROM messages");
  $client.run("INSERT INTO imap_octets (message_seq, author, digest) SELECT max(seq), 0, zeroblob(32) FROM messages");
}

/** Runs work that rests between its steps. */
async function patiently({ app }: ImapWorld, work: Promise<unknown>): Promise<void> {
  let isDone = false;
  void work.finally(() => {
    isDone = true;
  });
  while (!isDone) await app.advance(100);
  await work;
}

/** Adds somebody with mail and an app, removes them, and compares every table with how it was. */
async function expectNothingLeft(
  add: (world: ImapWorld) => { email: string; userId: string },
  remove: (world: ImapWorld, who: { email: string; userId: string }) => Promise<unknown>,
): Promise<void> {
  const world = await imapWorld();
  const { app, arrive } = world;
  await liveWith(world, { email: "alice@example.test", userId: app.owner.userId });
  const before = countsIn(world);
  const who = add(world);
  await liveWith(world, who);
  const both = countsIn(world);
  const kept = Object.keys(both).filter((table) => KEPT.test(table));
  for (const table of kept) expect([table, both[table]]).toEqual([table, 2 * (before[table] as number)]);
  expect(kept.filter((table) => before[table] === 0)).toEqual([]);
  await patiently(world, remove(world, who));
  expect(countsIn(world)).toEqual(before);
  expect(app.core.store.db.$client.query("PRAGMA foreign_key_check").all()).toEqual([]);
  await expect(arrive({}, who.email)).rejects.toThrow("nobody is at");
}

describe("nothing is left, and all of others'", () => {
  test("of a person who is erased", () =>
    expectNothingLeft(
      ({ member }) => member("Ben"),
      ({ app }, { userId }) => erasure.erasePerson(app.opened.core, userId, { compact: false }),
    ));

  test("of a workspace that is removed", () =>
    expectNothingLeft(
      ({ app }) =>
        app.core.store.transact((tx) => {
          const { core } = app.opened;
          const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, "Other");
          domains.markDomainVerified(core, tx, domains.addDomain(core, tx, workspaceId, "other.test", []).id);
          const eve = { workspaceId, email: "eve@other.test", name: "Eve", role: "owner", ownMailbox: true } as const;
          return { email: eve.email, userId: people.addUser(core, tx, eve).userId };
        }),
      ({ app }) => {
        const { core } = app.opened;
        const [other] = core.db
          .update(workspaces)
          .set({ moving: "out" })
          .where(eq(workspaces.name, "Other"))
          .returning()
          .all();
        return removeWorkspace(core, other?.id ?? "");
      },
    ));
});
