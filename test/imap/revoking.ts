/** A key that is revoked while a command of its app runs. */
import { expect } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import { sharedImapWorld } from "../harness/servers/imap-world.ts";

/**
 * Runs a command over so many messages, and revokes the key at the first change. The session ends, and messages that meet
 * `isChanged` are as many as were changed until then. BEN: the address of a mailbox that is shared.
 */
export async function revokedAmidst(command: string, isChanged: string, changed: number, count: number): Promise<void> {
  const world = await sharedImapWorld();
  const { core } = world.app.opened;
  const { store } = core;
  const { userId, mailboxId } = world.app.owner;
  const ben = world.member("Ben");
  const { key, id } = store.transact((tx) => {
    mailboxAdmin.grantMailboxAccess(tx, ben.mailboxId, userId, "full");
    people.setLabelFolders(tx, userId, true);
    return developers.createKey(core, tx, { userId, name: "App", scopes: ["read", "write"] });
  });
  await world.arriveAll(Array.from({ length: count }, (_, i) => `Mail ${i}`));
  const own = await world.client();
  await own.say("CREATE Labels/Work");
  await own.say("SELECT INBOX");
  await own.say("STORE 1:* +FLAGS (\\Deleted)");
  const mail = await world.client({ email: world.alice, key });
  await mail.say("SELECT INBOX");
  const db = store.db.$client;
  const stop = store.onCommit(() => {
    if (!db.query("SELECT 1 FROM journal_entries WHERE key_id = ? AND changes > 0").get(id)) return;
    stop();
    queueMicrotask(() => store.transact((tx) => developers.revokeKey(core, tx, id)));
  });
  expect((await mail.say(command.replace("BEN", ben.email))).status).toBe("BYE");
  const counted = db.query(`SELECT count(*) AS n FROM messages WHERE mailbox_id IN (?, ?) AND ${isChanged}`);
  expect(counted.get(mailboxId, ben.mailboxId)).toEqual({ n: changed });
}
