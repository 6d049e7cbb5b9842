/** Exporting a mailbox as an mbox; importing that gives the same mailbox on another appliance. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as developers from "../../src/admin/developers.ts";
import * as outbound from "../../src/admin/outbound.ts";
import * as people from "../../src/admin/people.ts";
import { setThreadSnooze } from "../../src/mailbox/changing/change.ts";
import { changeMessages } from "../../src/mailbox/changing/message-changes.ts";
import { fileMessage } from "../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { exportMailbox } from "../../src/mailbox/filing/transfer.ts";
import { readMailboxUsage } from "../../src/mailbox/state/mailboxes.ts";
import { OWN_FILES } from "../../src/store/named-files.ts";
import { exportMail } from "../../src/transfer/export-mbox.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { exportOf, files, GOING_ON, importInto } from "../harness/servers/transfer-rig.ts";

const originalOf = async (api: Booted["api"], id: string): Promise<string> =>
  Buffer.from((await api.bytes(`/api/ext/v1/messages/${id}/original`)).body).toString("latin1");
const withoutIds = (raw: string): string => raw.replace(/=_mailroom[^"\r\n]*/g, "boundary").replace(/msg_\w+/g, "");

/** The originals of all mail, in the order in which it was filed. */
async function originals({ api, core }: Booted): Promise<string[]> {
  const rows = core.store.db.$client.query<{ id: string }, []>("SELECT id FROM messages ORDER BY seq").all();
  const all: string[] = [];
  for (const { id } of rows) all.push(await originalOf(api, id));
  return all;
}

/** Everything that the API shows of a mailbox, without ids; conversations by their content. */
async function contentOf({ api, core, opened, owner }: Booted) {
  const folders = ["inbox", "sent", "drafts", "archive", "spam", "trash", "snoozed"];
  const seen = new Map<string, object>();
  for (const folder of folders) {
    const { body } = await api.get<{ threads: { id: string }[] }>(`/threads?limit=100&folder=${folder}`);
    for (const { id } of body.threads) {
      const { thread, messages } = (
        await api.get<{ thread: object; messages: { id: string; attachments: object[] }[] }>(`/threads/${id}`)
      ).body;
      const whole = [];
      for (const { attachments, ...message } of messages) {
        const files = [];
        for (const { url, ...file } of attachments as { url: string }[]) {
          files.push({ ...file, id: "", bytes: Buffer.from((await api.bytes(url)).body).toString("base64") });
        }
        const raw = Buffer.from((await api.bytes(`/messages/${message.id}/raw`)).body).toString("latin1");
        const octets = await originalOf(api, message.id);
        whole.push({
          ...message,
          id: "",
          threadId: "",
          mailboxId: "",
          attachments: files,
          raw: withoutIds(raw),
          // A draft has no octets of its own.
          original: folder === "drafts" ? withoutIds(octets) : octets,
        });
      }
      seen.set(id, { ...thread, id: "", mailboxId: "", messages: whole });
    }
  }
  const columns =
    "kind, read, folder, apart, flagged, date, filed_at, message_id, received_on, size, fingerprint, delivered_at, auth, bcc";
  const rows = core.store.db.$client
    .query(`SELECT ${columns} FROM messages WHERE mailbox_id = ? ORDER BY fingerprint, kind`)
    .all(owner.mailboxId);
  return {
    conversations: [...seen.values()].map((thread) => JSON.stringify(thread)).sort(),
    rows,
    usage: readMailboxUsage(opened.core, owner.mailboxId),
  };
}

/** An appliance with mail of every kind: received, sent, bounced, drafted, imported. */
async function lived(): Promise<Booted> {
  const booted = await boot();
  const { api, mx, core, opened } = booted;
  const sender = mailer(mx);
  const receive = (message: string) =>
    sender.send({ from: "carol@remote.example", to: "alice+x@example.test" }, message);
  await receive(letter({ subject: "Plain", text: "From here on.\n>From there.\n\n  spaces  \nÄpfel – 10 €\n" }));
  await receive(
    letter({
      subject: "=?utf-8?q?Caf=C3=A9?=",
      headers: ["X-Custom: kept", 'X-Mailroom-Export: {"kind":"sent"}', "X-Status: D"],
    }),
  );
  await receive(letter({ subject: "No id", messageId: "" }));
  await receive(
    letter({ subject: "Parts" }).replace(
      /Content-Type: text\/plain[\s\S]*/,
      [
        'Content-Type: multipart/mixed; boundary="m"',
        "",
        "--m",
        'Content-Type: multipart/alternative; boundary="a"',
        "",
        "--a",
        "Content-Type: text/plain; charset=utf-8",
        "",
        "the text",
        "--a",
        "Content-Type: text/html; charset=utf-8",
        "",
        '<p onclick="x()">the <b>HTML</b> <img src="cid:i1"></p><script>no</script>',
        "--a--",
        "--m",
        "Content-Type: image/png",
        "Content-ID: <i1>",
        'Content-Disposition: inline; filename="i.png"',
        "Content-Transfer-Encoding: base64",
        "",
        Buffer.from(Uint8Array.from({ length: 300 }, (_, i) => i)).toString("base64"),
        "--m",
        "Content-Type: message/rfc822",
        "",
        letter({ subject: "Inner", text: "From inside.\n" }),
        "--m--",
        "",
      ].join("\n"),
    ),
  );
  // A conversation whose messages a mail app has moved and flagged alone.
  await receive(letter({ subject: "Talk", messageId: "<talk@x>" }));
  for (const text of ["to archive", "to trash", "flagged"]) {
    await receive(letter({ subject: "Re: Talk", text, headers: ["In-Reply-To: <talk@x>"] }));
  }
  // All that there was, one by one.
  await receive(letter({ subject: "Gone", messageId: "<gone@x>" }));
  await receive(letter({ subject: "Re: Gone", headers: ["In-Reply-To: <gone@x>"] }));
  sender.close();
  const { db } = core.store;
  const alice = { ...booted.owner, role: "owner", email: "alice@example.test", scopes: new Set(), restricted: false };
  const talk = db.$client.query("SELECT seq FROM messages WHERE subject = 'Re: Talk' ORDER BY seq").all() as {
    seq: number;
  }[];
  for (const [i, change] of [{ folder: "archive" }, { folder: "trash" }, { flagged: true }].entries()) {
    core.store.transact((tx) =>
      changeMessages(tx, alice as never, [talk[i]?.seq as number], change as never, opened.core.now()),
    );
  }
  const gone = db.$client.query("SELECT seq FROM messages WHERE subject LIKE '%Gone'").all() as { seq: number }[];
  for (const { seq } of gone) {
    core.store.transact((tx) => changeMessages(tx, alice as never, [seq], { folder: "trash" }, opened.core.now()));
  }
  const { threads } = (await api.get<{ threads: { id: string; subject: string }[] }>("/threads")).body;
  const idOf = (subject: string) => threads.find((thread) => thread.subject === subject)?.id;
  await api.patch(`/threads/${idOf("Café")}`, { starred: true, addLabels: ["Two words", "Käse"], unread: false });
  await api.patch(`/threads/${idOf("No id")}`, { folder: "spam" });
  await api.post(`/threads/${idOf("Plain")}/reply`, { text: "Answered.", bcc: "dora@remote.example" });
  await api.post(`/threads/${idOf("Plain")}/draft`, { text: "And another thing." });
  await api.post("/send", {
    from: "alice@example.test",
    // Not to Carol: the reply to her may have bounced, which suppresses her address.
    to: "erin@remote.example, alice@example.test",
    subject: "To both",
    html: "<p>Hi</p>",
  });
  await api.patch(`/threads/${idOf("Parts")}`, { folder: "archive" });
  // Until all sent mail was delivered or has bounced.
  do await booted.advance(1_000);
  while ([...outbound.listQueue(opened.core)].length > 0);
  core.store.transact((tx) => setThreadSnooze(tx, idOf("Plain") ?? "", booted.runtime.now() + 3_600_000));
  await importInto(
    booted,
    files({ "Trash/cur/1:2,S": letter({ subject: "Old", date: "Mon, 03 Feb 2003 04:05:06 +0000" }) }),
  );
  return booted;
}

test("importing it on another appliance gives the same mailbox, message by message", async () => {
  const [from, to] = [await lived(), await boot()];
  await to.advance(from.runtime.now() - to.runtime.now());
  const path = await exportOf(from);
  const before = await contentOf(from);
  expect(before.conversations.length).toBeGreaterThanOrEqual(7);
  const result = await importInto(to, path);
  expect(result).toMatchObject({ imported: before.rows.length, skipped: 0, failed: 0 });
  const after = await contentOf(to);
  expect(after.rows).toEqual(before.rows);
  expect(after.conversations).toEqual(before.conversations);
  expect(after.usage).toEqual(before.usage);
}, 120_000);

test("importing it where it came from changes nothing", async () => {
  const booted = await lived();
  const before = await contentOf(booted);
  const result = await importInto(booted, await exportOf(booted));
  expect(result).toMatchObject({ imported: 0, skipped: before.rows.length, failed: 0 });
  expect(await contentOf(booted)).toEqual(before);
}, 120_000);

test("octets come back as they are, whatever their lines, and as often as they are exported", async () => {
  const lines = (...all: string[]): string => all.map((line) => `${line}\r\n`).join("");
  const head = (subject: string): string => lines("From: ben@remote.example", `Subject: ${subject}`);
  const file = Buffer.alloc(3_000, 7).toString("base64").replace(/.{60}/g, "$&\r\n");
  const all = [
    `${head("Ends without a line end")}\r\nText`,
    `${head("Ends with empty lines")}\r\nText\r\n\r\n\r\n`,
    `${head("Has LF alone, also at the end")}\r\nOne\nTwo\r\nThree\n`,
    `${head("Has CR alone")}\r\nOne\rFrom two\r>From three\r`,
    `${head("Has CR before CRLF")}\r\nOne\r\r\nTwo`,
    `Subject: Begins with LF alone\n${head("")}\r\nText`,
    `${head("From lines")}\r\nFrom one\r\n>From two\r\n>>From three\r\n From four`,
    `${head("From lines in the header")}From one\r\n>From two\r\n\r\nText\r\n`,
    `From one\r\n${head("A From line on top")}\r\nText\r\n`,
    ` Indented\r\n${head("A first line that is indented")}\r\nText\r\n`,
    `\r\n${head("No header")}`,
    `${head("A header without a body")}`,
    "A line alone",
    `x-mailroom-export: {"kind":"sent"}\r\nStatus: D\r\n${head("Marks")}Content-Length: 0\r\n\r\nText\r\n`,
    `Subject:  Spaces \t \r\n folded\t\r\nfrom :  Ben <ben@remote.example>\r\n\r\nGr\u00fc\u00dfe \t\r\n\u2028\u0085From\r\n`,
    `${head("A file")}${lines("Content-Type: application/pdf", "Content-Transfer-Encoding: base64", "", file)}`,
    `${head("Bcc")}Bcc: alice@example.test, dora@remote.example\r\n\r\nText\r\n`,
  ].map((octets) => Buffer.from(octets).toString("latin1"));
  const [from, to] = [await boot(), await boot()];
  const { core } = from.opened;
  for (const octets of all) {
    const message = await prepareMessage(Buffer.from(octets, "latin1"), core.blobs);
    const filing = { mailboxId: from.owner.mailboxId, receivedOn: "alice@example.test", message, now: core.now() };
    await core.store.enqueue((tx) => fileMessage(core, tx, filing));
  }
  const first = await exportOf(from);
  expect(await importInto(to, first)).toMatchObject({ imported: all.length, skipped: 0, failed: 0 });
  const served = all.map((octets) => octets.replace(/^Bcc: .*\r\n/m, ""));
  expect(await originals(from)).toEqual(served);
  expect(await originals(to)).toEqual(served);
  const second = await exportOf(to);
  const withoutNames = (path: string): string => readFileSync(path, "latin1").replace(/thr_\w+/g, "");
  expect(withoutNames(second)).toBe(withoutNames(first));
  expect(await importInto(to, second)).toMatchObject({ imported: 0, skipped: all.length });
});

test("a Content-Length that a sender wrote takes nothing of the next message", async () => {
  const [from, to] = [await boot(), await boot()];
  const fits = (length: number): string =>
    letter({ subject: "One", headers: [`Content-Length: ${length}`], text: "1" });
  const next = letter({ subject: "Two", text: "2" });
  await importInto(from, files({ "1.eml": fits(1_000), "2.eml": next }));
  const path = await exportOf(from);
  const text = readFileSync(path, "latin1");
  const rest = text.length - text.indexOf("\n\n") - 2;
  writeFileSync(path, text.replace("Content-Length: 1000", `Content-Length: ${String(rest).padEnd(4)}`));
  expect(await importInto(to, path)).toMatchObject({ imported: 2, failed: 0 });
});

describe("Bcc", () => {
  const bccIn = (path: string) => readFileSync(path, "latin1").match(/^Bcc: .*$/gim) ?? [];
  const sendAs = async (booted: Booted, key: string) => {
    const { status } = await booted.apiWith(key).post("/send", {
      from: "alice@example.test",
      to: "carol@remote.example",
      bcc: "dora@remote.example",
      text: "Hi",
    });
    expect(status).toBe(202);
  };

  test("of mail that the mailbox's owner sent is exported", async () => {
    const booted = await boot();
    await sendAs(booted, booted.owner.apiKey);
    expect(bccIn(await exportOf(booted))).toEqual(["Bcc: dora@remote.example"]);
  });

  test("of mail that somebody else sent from the mailbox is not exported", async () => {
    const booted = await boot();
    const { core } = booted.opened;
    const { store } = core;
    const key = store.transact((tx) => {
      const { workspaceId } = booted.owner;
      const { userId } = people.addUser(core, tx, {
        workspaceId,
        email: "ben@example.test",
        name: "Ben",
        role: "admin",
        ownMailbox: false,
      });
      return developers.createKey(core, tx, { userId, name: "Ben's", scopes: ["send"] }).key;
    });
    await sendAs(booted, key);
    expect(bccIn(await exportOf(booted))).toEqual([]);
  });

  test("of received mail is exported only for the mailbox's own address", async () => {
    const booted = await boot();
    const message = letter({ headers: ["Bcc: alice@example.test, dora@remote.example"] });
    await importInto(booted, files({ "INBOX/cur/1:2,S": message }));
    expect(bccIn(await exportOf(booted))).toEqual(["Bcc: alice@example.test"]);
  });
});

describe("the file", () => {
  test("has the marks that other programs read", async () => {
    const booted = await boot();
    const message = letter({ subject: "Marks", text: "From me\n" });
    await importInto(booted, files({ "Work/cur/1:2,FS": message, "Trash/cur/2:2,": letter({ subject: "Gone" }) }));
    const text = readFileSync(await exportOf(booted), "latin1");
    expect(text).not.toContain("\r");
    expect(text.match(/^From .*$/gm)?.length).toBe(2);
    expect(text).toMatch(/^From carol@remote\.example [A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\n/);
    expect(text).toContain("\n>From me\n");
    expect([...(text.match(/^(?:Status|X-Status|X-Keywords): .*$/gm) ?? [])].sort()).toEqual([
      "Status: O",
      "Status: RO",
      "X-Keywords: Work",
      "X-Status: D",
      "X-Status: F",
    ]);
  });

  test("never replaces another, and leaves no partial file behind", async () => {
    const booted = await boot();
    const path = join(temporaryFolder(), "mail.mbox");
    writeFileSync(path, "mine");
    await expect(OWN_FILES.create(path)).rejects.toThrow(/exists: name another file/);
    // Also one that appeared meanwhile.
    const other = join(temporaryFolder(), "mail.mbox");
    const file = await OWN_FILES.create(other);
    writeFileSync(other, "mine");
    const { core } = booted.opened;
    await expect(exportMail(exportMailbox(core, booted.owner.mailboxId), file, GOING_ON)).rejects.toThrow(
      /exists: name another file/,
    );
    expect(readFileSync(other, "utf8")).toBe("mine");
    expect(readdirSync(dirname(other))).toEqual(["mail.mbox"]);
    expect(readFileSync(path, "utf8")).toBe("mine");
    expect(readdirSync(dirname(path))).toEqual(["mail.mbox"]);
  });

  test("goes without a message whose file or octets are damaged or missing, and names it", async () => {
    const data = temporaryFolder();
    const booted = await boot({ MAILROOM_DATA: data });
    // Octets name a file of 1 kB or more, and are one themselves if they are large.
    const withFile = (subject: string, file: string) =>
      letter({
        subject,
        headers: ["MIME-Version: 1.0", `Content-Type: application/octet-stream; name="a"`],
        text: file.repeat(500),
      });
    const large = letter({ subject: "large", text: randomBytes(60_000).toString("hex") });
    await importInto(
      booted,
      files({ "1.eml": withFile("damaged", "one"), "2.eml": withFile("missing", "two"), "3.eml": large }),
    );
    const names = (readdirSync(join(data, "blobs"), { recursive: true, encoding: "utf8" }) as string[])
      .filter((name) => /^..\/[0-9a-f]{62}$/.test(name))
      .map((name) => join(data, "blobs", name));
    const [one = "", two = "", three = ""] = names;
    writeFileSync(one, "other");
    rmSync(two);
    writeFileSync(three, "other");
    await importInto(booted, files({ "4.eml": letter({ subject: "whole" }) }));
    const { $client: sqlite } = booted.core.store.db;
    await importInto(booted, files({ "5.eml": letter({ subject: "other octets" }) }));
    sqlite.run("UPDATE message_octets SET digest = zeroblob(32) WHERE message_seq = (SELECT max(seq) FROM messages)");
    const path = join(temporaryFolder(), "mail.mbox");
    const exported = await exportMail(
      exportMailbox(booted.opened.core, booted.owner.mailboxId),
      await OWN_FILES.create(path),
      GOING_ON,
    );
    expect(exported).toMatchObject({
      messages: 1,
      lost: Array(4).fill(expect.stringMatching(/^msg_/)),
    });
    expect(readFileSync(path, "utf8").match(/^Subject: .*$/gm)).toEqual(["Subject: whole"]);
  });

  test("does not appear when the export is interrupted or fails", async () => {
    const booted = await boot();
    await importInto(booted, files({ "m.eml": letter() }));
    const folder = temporaryFolder();
    const path = join(folder, "mail.mbox");
    const mail = () => exportMailbox(booted.opened.core, booted.owner.mailboxId);
    expect(
      await exportMail(mail(), await OWN_FILES.create(path), { ...GOING_ON, isInterrupted: () => true }),
    ).toBeUndefined();
    async function* broken() {
      yield* mail();
      throw new Error("no more");
    }
    await expect(exportMail(broken(), await OWN_FILES.create(path), GOING_ON)).rejects.toThrow("no more");
    expect(existsSync(path)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });
});
