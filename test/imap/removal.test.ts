/** What IMAP keeps of a mailbox goes with it. */
import { expect, test } from "bun:test";
import { imapWorld } from "../harness/imap-world.ts";

test("erasing a person leaves nothing of what IMAP kept of their mail, and all of others'", async () => {
  const { app, member, arrive, client } = await imapWorld();
  const ben = member("Ben");
  for (const [at, account] of [
    ["alice@example.test", await client()],
    [ben.email, await client(ben)],
  ] as const) {
    for (const subject of ["One", "Two", "Three"]) await arrive({ subject }, at);
    await account.say("SELECT INBOX");
    await account.say("FETCH 1:* (BODY.PEEK[])");
    await account.say("STORE 1 +FLAGS (\\Answered)");
    await account.say("MOVE 2 Trash");
    await account.say("MOVE 2 Archive");
    account.end();
  }
  const { erasure, store } = app.appliance;
  const counts = (): Record<string, number> => {
    const tables = ["imap_folders", "imap_messages", "imap_vanished", "imap_octets", "discarded_messages"];
    const countOf = (name: string) =>
      store.db.$client.query(`SELECT count(*) AS n FROM ${name}`).get() as { n: number };
    return Object.fromEntries(tables.map((name) => [name, countOf(name).n]));
  };
  const both = counts();
  expect(both).toMatchObject({ imap_folders: 12, imap_messages: 6, imap_octets: 6, imap_vanished: 4 });
  let isDone = false;
  const erased = erasure.erase(ben.userId, { compact: false }).finally(() => {
    isDone = true;
  });
  // It rests between its steps.
  while (!isDone) await app.advance(100);
  await erased;
  expect(counts()).toEqual(Object.fromEntries(Object.entries(both).map(([name, count]) => [name, count / 2])));
  expect(store.db.$client.query("PRAGMA foreign_key_check").all()).toEqual([]);
});
