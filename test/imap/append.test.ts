/** APPEND, EXPUNGE, and what an app sees of mail that waits. */
import { beforeEach, describe, expect, test } from "bun:test";
import { createTransport } from "nodemailer";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { appPassword, copied, type ImapWorld, sharedImapWorld, uidsOf } from "../harness/servers/imap-world.ts";

let world: ImapWorld;
let client: ImapAccount;

beforeEach(async () => {
  world = await sharedImapWorld();
  client = await world.client();
});

const octetsOf = (subject: string, id: string, more = ""): string =>
  `From: ${world.alice}\r\nTo: ben@remote.example\r\n${more}Subject: ${subject}\r\nMessage-ID: <${id}@app>\r\n\r\nHi\r\n`;

async function append(folder: string, octets: string, flags = "", date = ""): Promise<number | undefined> {
  const reply = await client.say(`APPEND ${folder} ${flags}${date}{${octets.length}+}\r\n${octets}`);
  expect(reply.status).toBe("OK");
  const [, uid] = /\[APPENDUID \d+ (\d+)\]/.exec(reply.text) ?? [];
  return uid === undefined ? undefined : Number(uid);
}

/** Sends a message as a mail app does, with a key. */
async function submit(octets: string, key = world.app.owner.apiKey): Promise<void> {
  const { host, port } = world.app.submissions;
  const transport = createTransport({
    host,
    port,
    secure: true,
    tls: { rejectUnauthorized: false },
    auth: { user: world.alice, pass: key },
  });
  await transport.sendMail({ envelope: { from: world.alice, to: "ben@remote.example" }, raw: octets });
  transport.close();
}

describe("into Sent", () => {
  test("what was sent is there once, whether it is appended before or after, or twice", async () => {
    await submit(octetsOf("After", "after"));
    const after = await append("Sent", octetsOf("After", "after", "Bcc: hidden@remote.example\r\n"), "(\\Seen) ");
    expect(await append("Sent", octetsOf("After", "after"), "(\\Seen) ")).toBe(after);
    const before = await append("Sent", octetsOf("Before", "before"), "(\\Seen) ");
    await submit(octetsOf("Before", "before"));
    expect(await append("Sent", octetsOf("Before", "before"))).toBeGreaterThan(before ?? 0);
    expect(await world.mail(client)).toEqual({ Sent: ["After", "Before"] });
    // Both are what the queue knows.
    const { body } = await world.app.api.get<{ messages: { id: string }[] }>("/messages?direction=outbound");
    expect(body.messages).toHaveLength(2);
    const { db } = world.app.core.store;
    const sent = db.$client
      .query("SELECT id FROM outbound_messages WHERE workspace_id = ?")
      .all(world.app.owner.workspaceId) as { id: string }[];
    expect(new Set(sent.map(({ id }) => id))).toEqual(new Set(body.messages.map(({ id }) => id)));
  });

  test("what was sent elsewhere is filed, and stays when another message is sent", async () => {
    await append("Sent", octetsOf("Elsewhere", "elsewhere"), "", '" 1-Jan-2026 08:00:00 +0000" ');
    await submit(octetsOf("Other", "other"));
    expect(await world.mail(client)).toEqual({ Sent: ["Elsewhere", "Other"] });
  });

  test("what was sent and moved since stays where it is, without a number of Sent", async () => {
    await submit(octetsOf("Moved", "moved"));
    await client.say("SELECT Sent");
    await client.say("MOVE 1 Archive");
    expect(await append("Sent", octetsOf("Moved", "moved"))).toBeUndefined();
    expect(await world.mail(client)).toEqual({ Archive: ["Moved"] });
  });
});

test("a draft is opened in the app, and sent from there; one that is appended again has its own UID", async () => {
  const first = await append("Drafts", octetsOf("Draft", "draft"), "(\\Draft \\Seen) ");
  const second = await append("Drafts", octetsOf("Draft, written on", "draft"), "(\\Draft \\Seen) ");
  expect([first, second]).toEqual([1, 2]);
  await client.say("SELECT Drafts");
  await client.say("UID STORE 1 +FLAGS (\\Deleted)");
  await client.say("UID EXPUNGE 1");
  expect(await world.mail(client)).toEqual({ Drafts: ["Draft, written on"], Trash: ["Draft"] });
  const { body } = await world.app.api.get<{ threads: { id: string }[] }>("/threads?folder=drafts");
  const { id } = body.threads[0] as { id: string };
  const { status } = await world.app.api.post(`/api/ext/v1/drafts/${id}/send`, {});
  expect(status).toBe(202);
  expect(await world.mail(client)).toEqual({ Sent: ["Draft, written on"], Trash: ["Draft"] });
});

test("a draft that is saved as it was has another UID, so that deleting the one before leaves it", async () => {
  for (const _ of [1, 2]) await append("Drafts", octetsOf("Same", "same"), "(\\Draft \\Seen) ");
  await client.say("SELECT Drafts");
  expect(await uidsOf(client, "Same")).toEqual([2]);
  await client.say("UID STORE 1 +FLAGS (\\Deleted)");
  await client.say("EXPUNGE");
  expect(await world.mail(client)).toEqual({ Drafts: ["Same"] });
});

describe("elsewhere", () => {
  test("with date, flags and keywords; a message that the mailbox has moves there", async () => {
    const first = await append(
      "INBOX",
      octetsOf("Kept", "kept"),
      "(\\Seen \\Flagged Work) ",
      '" 1-Jan-2020 08:00:00 +0000" ',
    );
    await client.say("SELECT INBOX");
    const { untagged } = await client.say(`UID FETCH ${first} (FLAGS INTERNALDATE)`);
    expect(untagged[0]).toContain("(\\Seen \\Flagged Work)");
    expect(untagged[0]).toContain('" 1-Jan-2020 08:00:00 +0000"');
    const again = await append("Archive", octetsOf("Kept", "kept"));
    expect(await world.mail(client)).toEqual({ Archive: ["Kept"] });
    await client.say("SELECT Archive");
    expect(await uidsOf(client, "Kept")).toEqual([again as number]);
  });

  test("beside others of its conversation, which stay", async () => {
    await world.arrive({ subject: "Talk", messageId: "<talk@x>" });
    await append("Archive", octetsOf("Re: Talk", "answer", "In-Reply-To: <talk@x>\r\n"));
    expect(await world.mail(client)).toEqual({ INBOX: ["Talk"], Archive: ["Re: Talk"] });
    await append("Trash", octetsOf("Re: Talk", "answer-2", "In-Reply-To: <talk@x>\r\n"));
    expect(await world.mail(client)).toEqual({ INBOX: ["Talk"], Archive: ["Re: Talk"], Trash: ["Re: Talk"] });
  });

  test("nothing is filed of what is refused", async () => {
    const octets = octetsOf("No", "no");
    for (const [folder, code] of [
      ["Nowhere", "TRYCREATE"],
      ["INBOX (\\Draft)", "CANNOT"],
    ]) {
      const { status, text } = await client.say(`APPEND ${folder} {${octets.length}+}\r\n${octets}`);
      expect([status, text]).toEqual(["NO", expect.stringContaining(`[${code}]`)]);
    }
    expect(await world.mail(client)).toEqual({});
  });
});

describe("octets that were fetched here", () => {
  const RICH = {
    subject: "Rich",
    headers: ["MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=b"],
    text: [
      ...["--b", "Content-Type: text/html", "", "<p>Hi</p>"],
      ...["--b", "Content-Type: text/csv", "Content-Disposition: attachment; filename=a.csv", "", "a,b", "--b--", ""],
    ].join("\r\n"),
  };

  async function fetched(name: string): Promise<string> {
    await client.say(`SELECT ${name}`);
    const [line = ""] = (await client.say("FETCH 1 (BODY.PEEK[])")).untagged;
    return line.slice(line.indexOf("}\r\n") + 3, -1);
  }

  for (const [what, messageId] of [
    ["a Message-ID", "<rich@remote.example>"],
    ["no Message-ID", ""],
  ] as const) {
    test(`of a message with ${what} are that message, in any folder and mailbox`, async () => {
      const ben = world.member("Ben", "full");
      await world.arrive({ ...RICH, messageId });
      const octets = await fetched("INBOX");
      expect(octets).toStartWith(
        "Return-Path: <ben@remote.example>\r\nReceived: from mx.remote.example ([192.0.2.1])\r\n",
      );
      await append("Archive", octets);
      expect(await world.mail(client)).toEqual({ Archive: ["Rich"] });
      expect(await fetched("Archive")).toBe(octets);
      // Nothing that arrived is in Sent.
      expect(await client.say(`APPEND Sent {${octets.length}+}\r\n${octets}`)).toMatchObject({ status: "NO" });
      client = await world.client(ben);
      for (const folder of ["INBOX", "Archive"]) {
        await append(folder, octets, "(\\Seen) ");
        expect(await world.mail(client)).toEqual({ [folder]: ["Rich"] });
      }
      const theirs = await fetched("Archive");
      expect(theirs.match(/^Received: /gm)).toHaveLength(1);
      await append("Trash", theirs);
      await append(`Shared/${world.alice}/Trash`, theirs);
      expect(await world.mail(client)).toEqual({ Trash: ["Rich"] });
      const hers = `Shared/${world.alice}/`;
      expect(await world.mail(client, hers)).toEqual({ [`${hers}Trash`]: ["Rich"] });
    });
  }

  test("are nothing to who may not read them, and changed octets are another message", async () => {
    const ben = world.member("Ben");
    await world.arrive({ subject: "Hers", messageId: "<hers@x>" });
    const octets = await fetched("INBOX");
    await append("Archive", octets.replace("Hers", "Ours"));
    expect(await world.mail(client)).toEqual({ INBOX: ["Hers"], Archive: ["Ours"] });
    client = await world.client(ben);
    await append("Archive", octets);
    expect(await world.mail(client)).toEqual({ Archive: ["Hers"] });
  });
});

describe("EXPUNGE", () => {
  for (const name of ["INBOX", "Archive", "Sent", "Drafts"]) {
    test(`in ${name} moves to Trash`, async () => {
      await append(name, octetsOf("Gone", "gone"));
      await client.say(`SELECT ${name}`);
      await client.say("STORE 1 +FLAGS (\\Deleted)");
      // What is marked and not expunged stays, also when the app is gone.
      client.end();
      client = await world.client();
      expect(await world.mail(client)).toEqual({ [name]: ["Gone"] });
      await client.say(`SELECT ${name}`);
      expect((await client.say("EXPUNGE")).untagged).toEqual(["* 1 EXPUNGE"]);
      expect(await world.mail(client)).toEqual({ Trash: ["Gone"] });
    });
  }

  for (const name of ["Trash", "Junk"]) {
    test(`in ${name} deletes for good, what was marked there alone`, async () => {
      client = await world.client({ email: world.alice, key: appPassword(world.app) });
      await append(name, octetsOf("Gone", "gone"));
      await append(name, octetsOf("Stays", "stays"));
      await client.say(`SELECT ${name}`);
      await client.say("STORE 1 +FLAGS (\\Deleted)");
      await client.say("EXPUNGE");
      expect(await world.mail(client)).toEqual({ [name]: ["Stays"] });
    });

    test(`in ${name} is refused to a key, which may mark, move away and put back; CLOSE removes nothing`, async () => {
      const uid = await append(name, octetsOf("Kept", "kept"));
      await client.say(`SELECT ${name}`);
      await client.say("STORE 1 +FLAGS (\\Deleted)");
      for (const command of ["EXPUNGE", `UID EXPUNGE ${uid}`]) {
        const refused = await client.say(command);
        expect([command, refused]).toEqual([command, expect.objectContaining({ status: "NO", untagged: [] })]);
        expect(refused.text).toStartWith("[NOPERM] ");
      }
      expect((await client.say("CLOSE")).status).toBe("OK");
      expect(await world.mail(client)).toEqual({ [name]: ["Kept"] });
      await client.say(`SELECT ${name}`);
      expect((await client.say("MOVE 1 Archive")).status).toBe("OK");
      expect(await world.mail(client)).toEqual({ Archive: ["Kept"] });
      await client.say("SELECT Archive");
      expect((await client.say(`MOVE 1 ${name}`)).status).toBe("OK");
      // A person's app, beside: what the key left is deleted for good.
      const app = await world.client({ email: world.alice, key: appPassword(world.app) });
      await app.say(`SELECT ${name}`);
      await app.say("STORE 1 +FLAGS (\\Deleted)");
      expect((await app.say("CLOSE")).status).toBe("OK");
      expect(await world.mail(client)).toEqual({});
    });
  }
});

describe("mail that waits", () => {
  const keyOf = (policy: object): string => {
    const { core } = world.app.opened;
    const { store } = core;
    const { userId } = world.app.owner;
    return store.transact((tx) =>
      developers.createKey(core, tx, { userId, name: "Held", scopes: ["read", "write", "send"], policy }),
    ).key;
  };

  test("for approval is a draft that no app moves, deletes or carries; it is in Sent once it was sent", async () => {
    const key = keyOf({ send: "hold" });
    await submit(octetsOf("Held", "held"), key);
    // The app files its copy.
    expect(await append("Sent", octetsOf("Held", "held"))).toBeUndefined();
    expect(await world.mail(client)).toEqual({ Drafts: ["Held"] });
    const ben = world.member("Ben");
    world.app.core.store.transact((tx) =>
      mailboxAdmin.grantMailboxAccess(tx, ben.mailboxId, world.app.owner.userId, "full"),
    );
    await client.say("SELECT Drafts");
    for (const command of ["MOVE 1 Trash", "COPY 1 Trash", `COPY 1 Shared/${ben.email}/Drafts`]) {
      expect([command, await client.say(command)]).toEqual([command, expect.objectContaining({ status: "NO" })]);
    }
    await client.say("STORE 1 +FLAGS (\\Deleted)");
    expect(await client.say("EXPUNGE")).toMatchObject({ status: "NO" });
    expect(await world.mail(client)).toEqual({ Drafts: ["Held"] });
    const holds = "/api/admin/v1/holds";
    const { body } = await world.app.api.get<{ holds: { id: string }[] }>(holds);
    await world.app.api.post(`${holds}/${body.holds[0]?.id}/approve`, {});
    expect(await world.mail(client)).toEqual({ Sent: ["Held"] });
  });

  test("for its time is a draft; in Trash it is not sent", async () => {
    await append("Drafts", octetsOf("Later", "later"));
    const { body } = await world.app.api.get<{ threads: { id: string }[] }>("/threads?folder=drafts");
    const { id } = body.threads[0] as { id: string };
    const sendAt = new Date(world.app.runtime.now() + 3_600_000).toISOString();
    const scheduled = await world.app.api.post(`/api/ext/v1/drafts/${id}/send`, { sendAt });
    expect(scheduled.status).toBeLessThan(300);
    expect(await world.mail(client)).toEqual({ Drafts: ["Later"] });
    await client.say("SELECT Drafts");
    expect(copied(await client.say("MOVE 1 Trash"))).toHaveLength(1);
    await world.app.advance(7_200_000);
    client = await world.client();
    expect(await world.mail(client)).toEqual({ Trash: ["Later"] });
  });
});

test("an admin sees shared mailboxes by the rule of the API", async () => {
  world.member("Ben");
  const listed = (await client.say('LIST "" *')).untagged.flatMap(
    (line) => /"(Shared\/[^/"]+@[^/"]+)\/INBOX"/.exec(line)?.[1] ?? [],
  );
  const { body } = await world.app.api.get<{ mailboxes: { address: string }[] }>("/mailboxes");
  const others = body.mailboxes.flatMap(({ address }) => (address === world.alice ? [] : [`Shared/${address}`]));
  expect(listed.sort()).toEqual(others.sort());
});
