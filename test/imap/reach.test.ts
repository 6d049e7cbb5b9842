/** Access that ends while an app reads, and data that is written anew meanwhile. */
import { describe, expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { sharedImapWorld, uidsOf } from "../harness/servers/imap-world.ts";
import { revokedAmidst } from "./revoking.ts";

test("a share that ends while a folder is fetched ends the session, before more is read", async () => {
  const world = await sharedImapWorld();
  await world.arriveAll(Array.from({ length: 40 }, (_, i) => `Secret ${i}`));
  const ben = world.member("Ben", "view");
  const mail = await world.client(ben);
  await mail.say(`SELECT Shared/${world.alice}/INBOX`);
  const {
    core: { store },
  } = world.app.opened;
  const { mailboxId } = world.app.owner;
  const fetched = mail.say("UID FETCH 1:* BODY.PEEK[]");
  await new Promise(setImmediate);
  store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, mailboxId, ben.userId));
  const { status, untagged } = await fetched;
  expect(status).toBe("BYE");
  expect(untagged.filter((line) => line.includes("Secret")).length).toBeLessThan(40);
});

describe("a key that is revoked in the midst of a command", () => {
  // In another mailbox messages are filed four at once, within one a hundred.
  test.each([
    ["MOVE 1:* Trash", "folder = 'trash'", 100],
    ["MOVE 1:* Shared/BEN/Archive", "folder = 'archive'", 4],
    ["COPY 1:* Shared/BEN/Archive", "folder = 'archive'", 0],
  ])("ends %s", (command, isChanged, changed) => revokedAmidst(command, isChanged, changed, changed === 100 ? 101 : 5));
});

test("a command for a draft does nothing to what it was written anew as", async () => {
  const world = await sharedImapWorld();
  const mail = await world.client();
  const content = { from: world.alice, to: "bob@remote.example", subject: "Anew", text: "one" };
  const { body: made } = await world.app.api.post<{ draftId: string; revision: number }>("/api/ext/v1/drafts", content);
  await mail.say("SELECT Drafts");
  const [uid] = await uidsOf(mail, "Anew");
  const { status } = await world.app.api.patch(`/api/ext/v1/drafts/${made.draftId}`, {
    revision: made.revision,
    text: "two",
  });
  expect(status).toBe(200);
  await mail.say(`UID STORE ${uid} +FLAGS (\\Deleted)`);
  await mail.say(`UID MOVE ${uid} Trash`);
  await mail.say("NOOP");
  await mail.say("EXPUNGE");
  expect(await world.mail(mail)).toEqual({ Drafts: ["Anew"] });
});

test("two mailboxes that are opened in the same second have different UIDVALIDITY", async () => {
  const world = await sharedImapWorld();
  const ben = world.member("Ben", "view");
  const mail = await world.client(ben);
  const validity = async (name: string): Promise<string | undefined> =>
    /UIDVALIDITY (\d+)/.exec((await mail.say(`STATUS ${name} (UIDVALIDITY)`)).untagged.join("\n"))?.[1];
  expect(await validity("INBOX")).not.toBe((await validity(`Shared/${world.alice}/INBOX`)) as string);
});

test("commands that repeat what they ask are answered once, and bounded", async () => {
  const world = await sharedImapWorld();
  await world.arrive({ subject: "Once" });
  const mail = await world.client();
  await mail.say("SELECT INBOX");
  const { untagged } = await mail.say(`STATUS INBOX (${"MESSAGES ".repeat(1_000).trimEnd()})`);
  expect(untagged).toEqual(['* STATUS "INBOX" (MESSAGES 1)']);
  const fetched = await mail.say(`FETCH 1 (${"ENVELOPE ".repeat(50).trimEnd()})`);
  expect(fetched.untagged.join("").match(/ENVELOPE/g)).toHaveLength(1);
  for (const many of [
    `FETCH 1 (${"BODY ".repeat(101).trimEnd()})`,
    `LIST "" (${"x ".repeat(101).trimEnd()})`,
    `SEARCH BODY ${"x".repeat(501)}`,
    `SEARCH ${Array.from({ length: 9 }, () => `BODY ${"x".repeat(450)}`).join(" ")}`,
  ]) {
    expect(await mail.say(many)).toMatchObject({ status: "BAD" });
  }
});

test("each shared mailbox has a name of its own, of one level and without wildcards", async () => {
  const world = await sharedImapWorld();
  const names = { "a/b": "a=2Fb", a_b: "a_b", "a%b*c": "a=25b=2Ac", "a=2fb": "a=3D2fb", "a=b": "a=b" };
  const mail = await world.client();
  for (const [local, name] of Object.entries(names)) {
    const { email } = world.member(local);
    await world.arrive({ subject: `For ${local}` }, email);
    expect(await world.mail(mail, `Shared/${name}@${world.domain}/`)).toEqual({
      [`Shared/${name}@${world.domain}/INBOX`]: [`For ${local}`],
    });
  }
  const { untagged } = await mail.say('LIST "" Shared/%/INBOX');
  expect(untagged.flatMap((line) => /"Shared\/(.*)@team\d+.test\/INBOX"$/.exec(line)?.[1] ?? []).sort()).toEqual(
    Object.values(names).sort(),
  );
});
