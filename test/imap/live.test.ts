/** A change from anywhere is told to an app in IDLE, and changes over IMAP to open pages; over real sockets. */
import { beforeAll, describe, expect, test } from "bun:test";
import { setPassword, signIn } from "../harness/clients/browser-session.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type ImapWorld, imapWorld, uidsOf } from "../harness/servers/imap-world.ts";

let world: ImapWorld;
beforeAll(async () => {
  world = await imapWorld();
});

/** An app in IDLE, after a message has come. */
async function idling(subject: string): Promise<{ client: ImapAccount; threadId: string }> {
  const { threadId } = await world.arrive({ subject });
  const client = await world.client();
  await client.say("SELECT INBOX");
  client.write("i IDLE\r\n");
  expect(await client.line()).toBe("+ idling");
  return { client, threadId };
}

async function told(client: ImapAccount, ms = 100): Promise<string | undefined> {
  await world.app.advance(ms);
  return client.line();
}

describe("IDLE is told within a second of", () => {
  test("a change over the API", async () => {
    const { client, threadId } = await idling("By API");
    await world.app.api.patch(`/threads/${threadId}`, { starred: true });
    expect(await told(client)).toMatch(/^\* \d+ FETCH \(FLAGS \(\\Flagged\)/);
    client.end();
  });

  test("a change by an agent over MCP", async () => {
    const { client, threadId } = await idling("By agent");
    const agent = await connectMcp(world.app.http, world.app.owner.apiKey);
    await agent.call("update_thread", { id: threadId, folder: "archive" });
    expect(await told(client)).toMatch(/^\* \d+ EXPUNGE$/);
    await agent.close();
    client.end();
  });

  test("a change in the web app", async () => {
    await setPassword(world.app, world.app.owner.userId);
    const page = await signIn(world.app, "alice@example.test");
    const { client, threadId } = await idling("In the app");
    expect((await page.send("PATCH", `/threads/${threadId}`, { unread: false })).status).toBe(200);
    expect(await told(client)).toMatch(/^\* \d+ FETCH \(FLAGS \(\\Seen\)/);
    client.end();
  });

  test("an arrival over SMTP", async () => {
    const { client } = await idling("Before");
    await mailer(world.app.mx).send(
      { from: "new@remote.example", to: "alice@example.test" },
      "From: new@remote.example\nSubject: New\nMessage-ID: <new@remote.example>\n\nHi\n",
    );
    expect(await told(client)).toMatch(/^\* \d+ EXISTS$/);
    client.end();
  });

  test("a change in another session, in both directions", async () => {
    const { client } = await idling("Other session");
    const other = await world.client();
    await other.say("SELECT INBOX");
    const [uid] = await uidsOf(other, "Other session");
    await other.say(`UID STORE ${uid} +FLAGS (\\Answered Later)`);
    expect(await told(client)).toMatch(/^\* \d+ FETCH \(FLAGS \(\\Answered Later\)/);
    await other.say(`UID MOVE ${uid} Trash`);
    expect(await told(client)).toMatch(/^\* \d+ EXPUNGE$/);
    client.end();
  });
});

test("open pages are told of changes over IMAP, and webhooks of none", async () => {
  const { store } = world.app.core;
  const { threadId } = await world.arrive({ subject: "On a page" });
  const events = () => store.db.$client.query("SELECT count(*) AS n FROM events").get() as { n: number };
  const before = events();
  const page = await signIn(world.app, "alice@example.test");
  const stream = (await page.fetch("/live")).body?.getReader();
  const heard = async (): Promise<string> => {
    const { value } = (await stream?.read()) ?? {};
    return new TextDecoder().decode(value);
  };
  const client = await world.client();
  await client.say("SELECT INBOX");
  const [uid] = await uidsOf(client, "On a page");
  for (const command of [
    `UID STORE ${uid} +FLAGS (\\Seen)`,
    `UID STORE ${uid} +FLAGS (\\Flagged)`,
    `UID MOVE ${uid} Archive`,
  ]) {
    await client.say(command);
    await world.app.advance(1_000);
    let text = "";
    while (!text.includes(threadId)) text += await heard();
  }
  expect(events()).toEqual(before);
  await stream?.cancel();
});

test("changes of more messages than are told at once are told each", async () => {
  const { app } = world;
  const { $client } = app.core.store.db;
  const client = await world.client();
  await client.say("SELECT INBOX");
  for (let i = 0; i < 510; i++) await world.arrive({ subject: `One of many ${i}` });
  await client.say("NOOP");
  const seqs = $client.query("SELECT seq FROM messages WHERE folder = 'inbox' AND flagged = 0").all();
  $client.run("UPDATE messages SET flagged = 1 WHERE folder = 'inbox'");
  const { untagged } = await client.say("NOOP");
  expect(untagged.filter((line) => line.includes("\\Flagged"))).toHaveLength(seqs.length);
  client.end();
});
