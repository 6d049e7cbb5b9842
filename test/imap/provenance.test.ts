/** Mail that an API key has filed makes nobody a participant (rules: Policies), by whatever road it came. */
import { beforeEach, describe, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import { createAppPassword } from "../../src/access/app-passwords.ts";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import type { Policy } from "../../src/store/schema.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type ImapWorld, sharedImapWorld, uidsOf } from "../harness/servers/imap-world.ts";
import { files, importInto } from "../harness/servers/transfer-rig.ts";

const VICTIM = "victim@remote.example";
let world: ImapWorld;
let key: string;
let agent: ImapAccount;
let person: ImapAccount;

const keyWith = (policy: Policy): string => {
  const { core } = world.app.opened;
  const { store } = core;
  const { userId } = world.app.owner;
  const scopes = ["read", "write", "send"] as const;
  return store.transact((tx) => developers.createKey(core, tx, { userId, name: "Agent", scopes, policy })).key;
};

beforeEach(async () => {
  world = await sharedImapWorld();
  const { core, runtime, owner } = world.app;
  key = keyWith({ recipients: ["thread", world.alice] });
  agent = await world.client({ email: world.alice, key });
  const { password } = core.store.transact((tx) =>
    createAppPassword(tx, runtime, { userId: owner.userId, name: "Phone", access: "all" }),
  );
  person = await world.client({ email: world.alice, key: password });
});

const octetsOf = (subject: string, more = ""): string =>
  `From: ${VICTIM}\r\nTo: ${world.alice}\r\n${more}Subject: ${subject}\r\nMessage-ID: <${subject}@remote.example>\r\n\r\nHi\r\n`;

async function append(client: ImapAccount, folder: string, octets: string, flags = ""): Promise<void> {
  expect(await client.say(`APPEND ${folder} ${flags}{${octets.length}+}\r\n${octets}`)).toMatchObject({ status: "OK" });
}

const threadOf = (subject: string, mailboxId = world.app.owner.mailboxId): string =>
  world.app.core.store.db.$client
    .query<{ id: string }, [string, string]>(
      "SELECT threads.id FROM messages JOIN threads ON threads.seq = thread_seq WHERE messages.subject = ? AND messages.mailbox_id = ?",
    )
    .get(subject, mailboxId)?.id ?? "";

/** A mailbox of Ben's that Alice may use; returns its id. */
function sharedMailbox(): string {
  const { mailboxId } = world.member("Ben");
  const {
    core: { store },
  } = world.app.opened;
  store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, mailboxId, world.app.owner.userId, "full"));
  return mailboxId;
}

/** The status of a reply to the victim with the key. */
async function replies(subject: string, { mailboxId }: { mailboxId?: string } = {}): Promise<number> {
  const threadId = threadOf(subject, mailboxId);
  expect(threadId).not.toBe("");
  return (await world.app.apiWith(key).post(`/threads/${threadId}/reply`, { text: "Hi", to: VICTIM })).status;
}

/** Submits a reply to the victim with the key; In-Reply-To names the conversation. Returns whether the server took it. */
async function submits(subject: string): Promise<boolean> {
  const { host, port } = world.app.submissions;
  const auth = { user: world.alice, pass: key };
  const transport = createTransport({ host, port, secure: true, tls: { rejectUnauthorized: false }, auth });
  const raw = `From: ${world.alice}\r\nTo: ${VICTIM}\r\nIn-Reply-To: <${subject}@remote.example>\r\nSubject: Re: ${subject}\r\n\r\nHi\r\n`;
  const sent = transport.sendMail({ envelope: { from: world.alice, to: VICTIM }, raw });
  return sent.then(
    () => true,
    () => false,
  );
}

async function arrives(octets: string): Promise<void> {
  const sender = mailer(world.app.mx);
  await sender.send({ from: VICTIM, to: world.alice }, octets);
  sender.close();
  await world.app.server.settled();
}

describe("a key does not write to whom it appended mail of", () => {
  test.each(["INBOX", "Archive", "Sent", "Trash"])("in %s", async (folder) => {
    await append(agent, folder, octetsOf("forged"));
    expect(await replies("forged")).toBe(403);
    expect(await submits("forged")).toBe(false);
  });

  test("in the conversation of honest mail, whose sender it goes on answering", async () => {
    await arrives(octetsOf("honest").replace(VICTIM, "carol@remote.example"));
    await append(agent, "INBOX", octetsOf("forged", "In-Reply-To: <honest@remote.example>\r\n"));
    expect(threadOf("forged")).toBe(threadOf("honest"));
    expect(await replies("honest")).toBe(403);
    const { status } = await world.app
      .apiWith(key)
      .post(`/threads/${threadOf("honest")}/reply`, { text: "Hi", to: "carol@remote.example" });
    expect(status).toBe(202);
  });

  test("with another key of the same person", async () => {
    await append(await world.client(), "INBOX", octetsOf("forged"));
    expect(await replies("forged")).toBe(403);
  });

  test("moved within the mailbox, by the key or a person", async () => {
    await append(agent, "INBOX", octetsOf("forged"));
    for (const [client, from, to] of [
      [agent, "INBOX", "Archive"],
      [person, "Archive", "INBOX"],
    ] as const) {
      await client.say(`SELECT ${from}`);
      expect((await client.say(`MOVE 1 ${to}`)).status).toBe("OK");
      expect(await replies("forged")).toBe(403);
    }
  });

  test.each(["COPY", "MOVE"])("after a person's %s into another mailbox", async (verb) => {
    const mailboxId = sharedMailbox();
    await append(agent, "INBOX", octetsOf("forged"));
    await person.say("SELECT INBOX");
    const done = await person.say(`${verb} 1 Shared/ben@${world.domain}/INBOX`);
    expect(done.status).toBe("OK");
    expect(await replies("forged", { mailboxId })).toBe(403);
  });

  test("after a person's app appends the octets that it fetched elsewhere", async () => {
    const mailboxId = sharedMailbox();
    await append(agent, "INBOX", octetsOf("forged"));
    await person.say("SELECT INBOX");
    const { untagged } = await person.say("FETCH 1 (BODY.PEEK[])");
    const [, size, rest = ""] = /\{(\d+)\}\r?\n([\s\S]*)/.exec(untagged.join("\n")) ?? [];
    await append(person, `Shared/ben@${world.domain}/INBOX`, rest.slice(0, Number(size)));
    expect(await replies("forged", { mailboxId })).toBe(403);
  });

  test("nor carries honest mail into a mailbox where it may be answered", async () => {
    const mailboxId = sharedMailbox();
    await arrives(octetsOf("honest"));
    await agent.say("SELECT INBOX");
    expect((await agent.say(`COPY 1 Shared/ben@${world.domain}/INBOX`)).status).toBe("OK");
    expect(await replies("honest", { mailboxId })).toBe(403);
    expect(await replies("honest")).toBe(202);
  });

  test("saved as a draft, moved where mail is", async () => {
    await arrives(octetsOf("honest").replace(VICTIM, "carol@remote.example"));
    await append(agent, "Drafts", octetsOf("forged", "In-Reply-To: <honest@remote.example>\r\n"), "(\\Draft) ");
    await agent.say("SELECT Drafts");
    expect((await agent.say("MOVE 1 Trash")).status).toBe("OK");
    expect(await replies("honest")).toBe(403);
    expect(await submits("forged")).toBe(false);
  });

  test("nor to whom it names in mail to itself", async () => {
    const { host, port } = world.app.submissions;
    const auth = { user: world.alice, pass: key };
    const transport = createTransport({ host, port, secure: true, tls: { rejectUnauthorized: false }, auth });
    const send = (more: string) =>
      transport.sendMail({
        envelope: { from: world.alice, to: world.alice },
        raw: `From: ${world.alice}\r\nTo: ${world.alice}\r\n${more}Subject: to myself\r\n\r\nHi\r\n`,
      });
    for (const field of ["Cc", "Reply-To"]) await expect(send(`${field}: ${VICTIM}\r\n`)).rejects.toThrow("policy");
    await send("");
    await world.app.server.settled();
    expect(await replies("to myself")).toBe(403);
  });
});

describe("what came in another way counts", () => {
  test("over SMTP, also after a key appended the same", async () => {
    await arrives(octetsOf("honest"));
    await append(agent, "INBOX", octetsOf("honest"));
    expect(await replies("honest")).toBe(202);
    await append(agent, "INBOX", octetsOf("later"));
    expect(await replies("later")).toBe(403);
    await arrives(octetsOf("later"));
    expect(await uidsIn("later")).toHaveLength(1);
    expect(await replies("later")).toBe(202);
  });

  test("what a person appended, also after a key appended the same", async () => {
    await append(person, "INBOX", octetsOf("kept"));
    expect(await replies("kept")).toBe(202);
    await append(agent, "INBOX", octetsOf("both"));
    await append(person, "INBOX", octetsOf("both"));
    expect(await uidsIn("both")).toHaveLength(1);
    expect(await replies("both")).toBe(202);
  });

  test("what the operator imported, also after a key appended the same", async () => {
    await append(agent, "INBOX", octetsOf("both"));
    await importInto(world.app, files({ "one.eml": octetsOf("both"), "two.eml": octetsOf("kept") }), {
      into: world.alice,
    });
    expect(await uidsIn("both")).toHaveLength(1);
    expect(await replies("both")).toBe(202);
    expect(await replies("kept")).toBe(202);
  });
});

async function uidsIn(subject: string): Promise<number[]> {
  await person.say("EXAMINE INBOX");
  return uidsOf(person, subject);
}

test("a key that sends removes no copy in Sent that a person appended, whatever its Message-ID", async () => {
  const copyOf = (text: string) =>
    `From: ${world.alice}\r\nTo: ben@remote.example\r\nSubject: ${text}\r\nMessage-ID: <contract@example.test>\r\n\r\n${text}\r\n`;
  const { host, port } = world.app.submissions;
  const wide = keyWith({});
  const auth = { user: world.alice, pass: wide };
  const transport = createTransport({ host, port, secure: true, tls: { rejectUnauthorized: false }, auth });
  await append(person, "Sent", copyOf("What Alice agreed to"));
  await transport.sendMail({
    envelope: { from: world.alice, to: "ben@remote.example" },
    raw: copyOf("Something else"),
  });
  transport.close();
  const sent = () => world.mail(person).then(({ Sent = [] }) => [...Sent].sort());
  expect(await sent()).toEqual(["Something else", "What Alice agreed to"]);
});
