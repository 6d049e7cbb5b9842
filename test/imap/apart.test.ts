/**
 * A message that a mail app has moved keeps its folder, whatever becomes of its conversation (rules: Folder of a message):
 * apps over IMAP, mail over SMTP, programs over REST.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { type Letter, letter, mailer, type Sender } from "../harness/mail/mail.ts";
import { appPassword, type ImapWorld, imapWorld, uidsOf } from "../harness/servers/imap-world.ts";
import { patch, want } from "./labels.ts";

interface Thread {
  folder: string;
  unread: boolean;
  snippet: string;
}

let world: ImapWorld;
let smtp: Sender;
/** Signed in with a password, as apps of people are. */
let client: ImapAccount;
/** A word in the subjects of a test. */
let topic: string;
let count = 0;
beforeAll(async () => {
  world = await imapWorld();
  smtp = mailer(world.app.mx);
  client = await world.client({ email: world.alice, key: appPassword(world.app) });
});
afterAll(() => smtp.close());
beforeEach(() => {
  topic = `topic${++count}`;
});

/** Delivers the message number `n` of the test's conversation; each of another sender. */
async function deliver(n: number, more: Letter = {}, to = world.alice): Promise<void> {
  const from = `sender${n}@${topic}.example`;
  const answers = n === 1 ? [] : [`In-Reply-To: <1@${topic}>`];
  await smtp.send(
    { from, to },
    letter({ from, to, subject: `${topic} ${n}`, messageId: `<${n}@${topic}>`, headers: answers, ...more }),
  );
}

/** Delivers the first messages of a conversation. Returns its id. */
async function conversation(length: number): Promise<string> {
  for (let n = 1; n <= length; n++) await deliver(n);
  const { body } = await world.app.api.get<{ threads: { id: string }[] }>(`/threads?q=${topic}`);
  expect(body.threads.length).toBe(1);
  return body.threads[0]?.id ?? "";
}

/** The numbers of the conversation's messages by folder, as mail apps see them. */
async function places(of: ImapAccount = client): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [folder, subjects] of Object.entries(await world.mail(of))) {
    const own = subjects.filter((subject) => subject.startsWith(`${topic} `));
    if (own.length > 0) found[folder] = own.map((subject) => subject.split(" ")[1]).join(" ");
  }
  return found;
}

/** Moves the messages with these numbers, a command each. */
async function move(from: string, numbers: readonly number[], to: string): Promise<void> {
  await client.say(`SELECT ${from}`);
  for (const n of numbers) {
    const [uid] = await uidsOf(client, `${topic} ${n}`);
    expect((await client.say(`UID MOVE ${uid} ${to}`)).status).toBe("OK");
  }
}

const threadOf = async (id: string) =>
  (await world.app.api.get<{ thread: Thread; messages: { id: string; read: boolean }[] }>(`/threads/${id}`)).body;

const uids = async (folder: string): Promise<number[]> => {
  await client.say(`EXAMINE ${folder}`);
  return uidsOf(client, topic);
};

/** Ids of conversations that a request lists. */
const listed = async (path: string): Promise<string[]> =>
  (await world.app.api.get<{ threads: { id: string }[] }>(path)).body.threads.map(({ id }) => id);

const FIVE = [1, 2, 3, 4, 5];

describe("new mail", () => {
  for (const [name, folder] of [
    ["Trash", "trash"],
    ["Archive", "archive"],
  ] as const) {
    test(`comes alone to the inbox where all that was there went to ${name} one by one`, async () => {
      const id = await conversation(5);
      await move("INBOX", FIVE, name);
      expect((await threadOf(id)).thread.folder).toBe(folder);
      const before = await uids(name);
      const watching = await world.client({ email: world.alice, key: appPassword(world.app) });
      await watching.say(`SELECT ${name}`);
      const { body: changes } = await world.app.api.get<{ next: string }>("/api/ext/v1/changes");

      await deliver(6, { text: "the newest words" });
      expect(await places()).toEqual({ INBOX: "6", [name]: "1 2 3 4 5" });
      expect(await uids(name)).toEqual(before);
      expect((await watching.say("NOOP")).untagged).toEqual([]);
      watching.end();

      const { thread, messages } = await threadOf(id);
      expect(thread).toMatchObject({ folder: "inbox", unread: true, snippet: "the newest words" });
      expect(messages.length).toBe(6);
      const folders = await Promise.all(
        messages.map(async (one) => {
          const { body } = await world.app.api.get<{ message: { folder: string } }>(`/messages/${one.id}`);
          return body.message.folder;
        }),
      );
      expect(folders).toEqual([...FIVE.map(() => folder), "inbox"]);
      const { body: single } = await world.app.api.get<{ messages: { threadId: string }[] }>(
        `/messages?folder=${folder}&limit=100`,
      );
      expect(single.messages.filter(({ threadId }) => threadId === id).length).toBe(5);
      expect(await listed(`/search?q=${topic}+in:${folder}`)).toEqual([]);
      expect(await listed(`/search?q=${topic}+in:inbox`)).toEqual([id]);
      const { body: changed } = await world.app.api.get<{ changes: object[] }>(
        `/api/ext/v1/changes?after=${changes.next}`,
      );
      expect(changed.changes).toMatchObject([{ threadId: id, kind: "upserted" }]);
    });
  }

  test("comes alone where an app deleted the others, or moved all of them at once", async () => {
    await conversation(3);
    await client.say("SELECT INBOX");
    const [first, ...others] = await uidsOf(client, topic);
    await client.say(`UID STORE ${first} +FLAGS (\\Deleted)`);
    await client.say("EXPUNGE");
    await client.say(`UID MOVE ${others.join(",")} Archive`);
    await deliver(4);
    expect(await places()).toEqual({ INBOX: "4", Trash: "1", Archive: "2 3" });
  });

  test("joins what went to Junk one by one there, and comes alone to the inbox if another message is still there", async () => {
    const id = await conversation(4);
    await move("INBOX", [1, 2, 3], "Junk");
    await deliver(5);
    expect(await places()).toEqual({ INBOX: "4 5", Junk: "1 2 3" });
    await move("INBOX", [4, 5], "Junk");
    await deliver(6);
    expect(await places()).toEqual({ Junk: "1 2 3 4 5 6" });
    expect((await threadOf(id)).thread.folder).toBe("spam");
  });

  test.each(["archive", "trash"] as const)(
    "brings a conversation back that a PATCH moved whole to %s",
    async (folder) => {
      const id = await conversation(3);
      await patch(world, id, { folder });
      await deliver(4);
      expect(await places()).toEqual({ INBOX: "1 2 3 4" });
    },
  );

  test("brings back what followed the conversation, and what a PATCH moved after an app", async () => {
    const id = await conversation(3);
    await move("INBOX", [1], "Archive");
    await patch(world, id, { folder: "archive" });
    await deliver(4);
    expect(await places()).toEqual({ INBOX: "2 3 4", Archive: "1" });
    await move("INBOX", [2, 3, 4], "Archive");
    await patch(world, id, { folder: "inbox" });
    await patch(world, id, { folder: "archive" });
    await deliver(5);
    expect(await places()).toEqual({ INBOX: "1 2 3 4 5" });
  });

  test("brings back what an app had put back into the inbox", async () => {
    const id = await conversation(2);
    await move("INBOX", [1], "Trash");
    await move("Trash", [1], "INBOX");
    await patch(world, id, { folder: "archive" });
    await deliver(3);
    expect(await places()).toEqual({ INBOX: "1 2 3" });
  });

  test("leaves what an app left behind when it took others out", async () => {
    const id = await conversation(2);
    await patch(world, id, { folder: "trash" });
    await move("Trash", [1], "INBOX");
    await move("INBOX", [1], "Trash");
    await deliver(3);
    expect(await places()).toEqual({ INBOX: "3", Trash: "1 2" });
  });

  test("leaves what we wrote where an app put it", async () => {
    const id = await conversation(1);
    const text = `${topic} 2`;
    const { status } = await world.app.api.post(`/threads/${id}/reply`, { text });
    expect(status).toBe(202);
    await client.say("SELECT Sent");
    const { untagged } = await client.say(`UID SEARCH SUBJECT "${topic} 1"`);
    const uid = untagged.join().split(" ").at(-1);
    expect((await client.say(`UID MOVE ${uid} Trash`)).status).toBe("OK");
    await move("INBOX", [1], "Trash");
    await deliver(3);
    expect(await world.mail(client)).toMatchObject({
      Trash: expect.arrayContaining([`${topic} 1`, `Re: ${topic} 1`]),
      INBOX: expect.arrayContaining([`${topic} 3`]),
    });
  });

  test("leaves what an app appended, or carried here from another mailbox", async () => {
    const ben = world.member(`Ben${count}`, "full");
    await deliver(1, {}, ben.email);
    await client.say(`SELECT Shared/${ben.email}/INBOX`);
    const [uid] = await uidsOf(client, topic);
    expect((await client.say(`UID MOVE ${uid} Archive`)).status).toBe("OK");
    const octets = letter({ subject: `${topic} 2`, headers: [`In-Reply-To: <1@${topic}>`] }).replaceAll("\n", "\r\n");
    expect((await client.say(`APPEND Archive {${octets.length}+}\r\n${octets}`)).status).toBe("OK");
    await deliver(3);
    expect(await places()).toEqual({ INBOX: "3", Archive: "1 2" });
  });

  test("leaves what an app put under a label, which the new message has as well", async () => {
    await conversation(2);
    want(world);
    const app = await world.client();
    await app.say(`CREATE Labels/${topic}`);
    await app.say("SELECT INBOX");
    for (const n of [1, 2]) {
      const [uid] = await uidsOf(app, `${topic} ${n}`);
      expect((await app.say(`UID MOVE ${uid} Labels/${topic}`)).status).toBe("OK");
    }
    await deliver(3);
    expect(await places()).toEqual({ INBOX: "3", Archive: "1 2" });
    await app.say(`SELECT Labels/${topic}`);
    expect((await uidsOf(app, topic)).length).toBe(3);
    want(world, false);
  });

  test("that a rule archives leaves what is in Trash", async () => {
    const id = await conversation(2);
    await move("INBOX", [1, 2], "Trash");
    const { mailboxId } = world.app.owner;
    const rules = [{ match: `subject:${topic}`, actions: [{ type: "archive" }] }];
    expect((await world.app.api.put(`/api/admin/v1/mailboxes/${mailboxId}/rules`, { rules })).status).toBe(200);
    await deliver(3);
    await world.app.api.put(`/api/admin/v1/mailboxes/${mailboxId}/rules`, { rules: [] });
    expect(await places()).toEqual({ Archive: "3", Trash: "1 2" });
    expect((await threadOf(id)).thread.folder).toBe("archive");
  });
});

describe("a PATCH of folder", () => {
  /** A conversation in the inbox of which an app put one message into each folder. */
  async function scattered(): Promise<string> {
    const id = await conversation(5);
    await move("INBOX", [1], "Trash");
    await move("INBOX", [2], "Junk");
    await move("INBOX", [3], "Archive");
    return id;
  }

  test.each([
    ["inbox", { INBOX: "4 5", Trash: "1", Junk: "2", Archive: "3" }],
    ["archive", { Trash: "1", Junk: "2", Archive: "3 4 5" }],
    ["trash", { Trash: "1 2 3 4 5" }],
    ["spam", { Junk: "1 2 3 4 5" }],
  ] as const)("to %s moves what is where the conversation is, and into trash or spam all", async (folder, after) => {
    const id = await scattered();
    await patch(world, id, { folder });
    expect(await places()).toEqual(after);
    expect((await threadOf(id)).thread.folder).toBe(folder);
  });

  test("brings back what went to Trash one by one, except what is in Junk", async () => {
    const id = await conversation(3);
    await move("INBOX", [1, 2], "Trash");
    await move("INBOX", [3], "Junk");
    await patch(world, id, { folder: "inbox" });
    expect(await places()).toEqual({ INBOX: "1 2", Junk: "3" });
  });

  test("to trash and back to the inbox brings all, and new mail only what followed", async () => {
    const id = await conversation(2);
    await move("INBOX", [1], "Trash");
    await patch(world, id, { folder: "trash" });
    await deliver(3);
    expect(await places()).toEqual({ INBOX: "2 3", Trash: "1" });
    await patch(world, id, { folder: "trash" });
    await patch(world, id, { folder: "inbox" });
    expect(await places()).toEqual({ INBOX: "1 2 3" });
  });

  test("taken back leaves each message as it was, for new mail, too", async () => {
    const id = await conversation(3);
    await move("INBOX", [1, 2, 3], "Trash");
    const { core, owner, write } = world.app;
    const key = write((tx) =>
      developers.createKey(core, tx, { userId: owner.userId, name: "Agent", scopes: ["read", "write"] }),
    );
    const { status } = await world.app.apiWith(key.key).patch(`/threads/${id}`, { folder: "inbox" });
    expect(status).toBe(200);
    expect(await places()).toEqual({ INBOX: "1 2 3" });
    const undone = await world.app.api.post(`/api/admin/v1/keys/${key.id}/undo`, { since: "2020-01-01T00:00:00Z" });
    expect(undone.status).toBe(200);
    await deliver(4);
    expect(await places()).toEqual({ INBOX: "4", Trash: "1 2 3" });
  });
});

test("snoozing moves what is where the conversation is, which new mail then finds there", async () => {
  const id = await conversation(3);
  await move("INBOX", [1], "Trash");
  await move("INBOX", [2, 3], "Archive");
  const until = new Date(world.app.runtime.now() + 3_600_000).toISOString();
  expect((await world.app.api.patch(`/api/ext/v1/threads/${id}/snooze`, { until })).status).toBe(200);
  expect(await places()).toEqual({ INBOX: "2 3", Trash: "1" });
  await deliver(4);
  expect(await places()).toEqual({ INBOX: "2 3 4", Trash: "1" });
  expect(await listed(`/threads?folder=inbox&q=${topic}`)).toEqual([id]);
});

test("a conversation is unread while a message is, in Trash, too", async () => {
  const id = await conversation(2);
  await move("INBOX", [1], "Trash");
  await client.say("SELECT INBOX");
  const [uid] = await uidsOf(client, `${topic} 2`);
  await client.say(`UID STORE ${uid} +FLAGS (\\Seen)`);
  expect((await threadOf(id)).thread.unread).toBe(true);
  await patch(world, id, { unread: false });
  const { thread, messages } = await threadOf(id);
  expect([thread.unread, messages.map(({ read }) => read)]).toEqual([false, [true, true]]);
});
