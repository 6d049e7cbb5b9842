/** Exporting a mailbox as an mbox; importing that gives the same mailbox on another appliance. */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as developers from "../../src/admin/developers.ts";
import * as outbound from "../../src/admin/outbound.ts";
import * as people from "../../src/admin/people.ts";
import { setThreadSnooze } from "../../src/mailbox/changing/change.ts";
import { changeMessages } from "../../src/mailbox/changing/message-changes.ts";
import { exportMailbox } from "../../src/mailbox/filing/transfer.ts";
import { readMailboxUsage } from "../../src/mailbox/state/mailboxes.ts";
import { OWN_FILES } from "../../src/store/named-files.ts";
import { exportMail } from "../../src/transfer/export-mbox.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { files, importInto } from "../harness/servers/transfer-rig.ts";

const GOING_ON = { isInterrupted: () => false, onProgress() {} };

async function exported({ opened, owner }: Booted, mailboxId = owner.mailboxId): Promise<string> {
  const path = join(temporaryFolder(), "mail.mbox");
  await exportMail(exportMailbox(opened.core, mailboxId), await OWN_FILES.create(path), GOING_ON);
  return path;
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
        whole.push({
          ...message,
          id: "",
          threadId: "",
          mailboxId: "",
          attachments: files,
          raw: raw.replace(/=_mailroom[^"\r\n]*/g, "boundary").replace(/msg_\w+/g, ""),
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
  const path = await exported(from);
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
  const result = await importInto(booted, await exported(booted));
  expect(result).toMatchObject({ imported: 0, skipped: before.rows.length, failed: 0 });
  expect(await contentOf(booted)).toEqual(before);
}, 120_000);

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
    expect(bccIn(await exported(booted))).toEqual(["Bcc: dora@remote.example"]);
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
    expect(bccIn(await exported(booted))).toEqual([]);
  });

  test("of received mail is exported only for the mailbox's own address", async () => {
    const booted = await boot();
    const message = letter({ headers: ["Bcc: alice@example.test, dora@remote.example"] });
    await importInto(booted, files({ "INBOX/cur/1:2,S": message }));
    expect(bccIn(await exported(booted))).toEqual(["Bcc: alice@example.test"]);
  });
});

describe("the file", () => {
  test("has the marks that other programs read", async () => {
    const booted = await boot();
    const message = letter({ subject: "Marks", text: "From me\n" });
    await importInto(booted, files({ "Work/cur/1:2,FS": message, "Trash/cur/2:2,": letter({ subject: "Gone" }) }));
    const text = readFileSync(await exported(booted), "latin1");
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

  test("goes without a message whose file is damaged or missing, and names it", async () => {
    const data = temporaryFolder();
    const booted = await boot({ MAILROOM_DATA: data });
    const withFile = (subject: string, file: string) =>
      letter({
        subject,
        headers: ["MIME-Version: 1.0", `Content-Type: application/octet-stream; name="a"`],
        text: file,
      });
    await importInto(booted, files({ "1.eml": withFile("damaged", "one"), "2.eml": withFile("missing", "two") }));
    const names = (readdirSync(join(data, "blobs"), { recursive: true, encoding: "utf8" }) as string[])
      .filter((name) => /^..\/[0-9a-f]{62}$/.test(name))
      .map((name) => join(data, "blobs", name));
    const [one = "", two = ""] = names;
    writeFileSync(one, "other");
    rmSync(two);
    await importInto(booted, files({ "3.eml": letter({ subject: "whole" }) }));
    const path = join(temporaryFolder(), "mail.mbox");
    const exported = await exportMail(
      exportMailbox(booted.opened.core, booted.owner.mailboxId),
      await OWN_FILES.create(path),
      GOING_ON,
    );
    expect(exported).toMatchObject({
      messages: 1,
      lost: [expect.stringMatching(/^msg_/), expect.stringMatching(/^msg_/)],
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
