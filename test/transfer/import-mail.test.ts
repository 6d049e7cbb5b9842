/** Importing mail that was kept elsewhere, as the API then shows it. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { join, relative } from "node:path";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { unavailable } from "../../src/base/errors.ts";
import { attachFiles, readDraft, removeDraft } from "../../src/mailbox/changing/drafts.ts";
import { exportMailbox } from "../../src/mailbox/filing/transfer.ts";
import { BIT_OF, IMAP_FLAGS } from "../../src/mailbox/imap/uids.ts";
import { OWN_FILES } from "../../src/store/named-files.ts";
import { exportMail } from "../../src/transfer/export-mbox.ts";
import { findMessagesInFiles, unwrapImportedMessage } from "../../src/transfer/sources.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { files, importInto, mboxEntry } from "../harness/servers/transfer-rig.ts";

interface Summary {
  id: string;
  threadId: string;
  folder: string;
  direction: string;
  from: { email: string };
  subject: string;
  bodyText: string;
  date: string;
  read: boolean;
  headerMessageId?: string;
}

const messagesOf = async ({ api }: Booted): Promise<Summary[]> =>
  (await api.get<{ messages: Summary[] }>("/messages?limit=100")).body.messages;

const threadOf = async ({ api }: Booted, { threadId }: Summary) =>
  (
    await api.get<{
      thread: { folder: string; unread: boolean; starred: boolean; labels: string[]; receivedOn: string };
    }>(`/threads/${threadId}`)
  ).body.thread;

let app: Booted;
beforeAll(async () => {
  app = await boot();
});

/** Imports a message into an appliance that may have others, and finds it by its subject. */
let count = 0;
async function placed(name: string, wrap: (message: string) => string, headers: string[] = [], of = {}) {
  const subject = `Placed ${++count}`;
  const folder = files({ [name]: wrap(letter({ subject, headers, ...of })) });
  const result = await importInto(app, name.includes("/") ? folder : join(folder, name));
  expect(result).toMatchObject({ imported: 1, skipped: 0, failed: 0 });
  const message = (await messagesOf(app)).find((one) => one.subject === subject);
  if (!message) throw new Error(`${subject} is not there`);
  return { message, thread: await threadOf(app, message) };
}

const plain = (message: string) => message;
const entry = (message: string) => mboxEntry(message);
const gmail = (labels: string) => (message: string) =>
  mboxEntry(`X-GM-THRID: 17\nX-Gmail-Labels: ${labels}\n${message}`);

test("NUL is removed from a message in a file", async () => {
  const { message, thread } = await placed("m.eml", plain, ["X-No\0te: y"], { text: "At no\0on?" });
  expect(message).toMatchObject({ bodyText: "At noon?" });
  // Where the header ends was doubtful, so that the original was attached.
  expect(thread).toMatchObject({ hasAttachments: false });
});

describe("the folder and state of a message", () => {
  const cases: [
    what: string,
    name: string,
    wrap: (message: string) => string,
    expected: { folder?: string; direction?: string; read?: boolean; thread?: Record<string, unknown> },
    headers?: string[],
    letter?: object,
  ][] = [
    ["a message in a file", "m.eml", plain, { folder: "inbox", direction: "inbound", read: true }],
    ["an mbox", "mail.mbox", entry, { folder: "inbox", direction: "inbound", read: true }],
    ["read", "mail", entry, { read: true, thread: { unread: false } }, ["Status: RO"]],
    ["not read", "mail", entry, { read: false, thread: { unread: true } }, ["Status: O"]],
    ["starred", "mail", entry, { thread: { starred: true } }, ["Status: RO", "X-Status: F"]],
    ["deleted, not yet purged", "mail", entry, { folder: "trash" }, ["X-Status: D"]],
    [
      "keywords",
      "mail",
      entry,
      { thread: { labels: ["Work", "To_do"] } },
      ["X-Keywords: Work To_do $Forwarded NonJunk"],
    ],
    [
      "Thunderbird: read and marked",
      "Inbox",
      entry,
      { read: true, thread: { starred: true } },
      ["X-Mozilla-Status: 0005"],
    ],
    ["Thunderbird: new", "Inbox", entry, { read: false }, ["X-Mozilla-Status: 0000"]],
    ["a file of sent mail", "Sent.mbox", entry, { folder: "sent", direction: "outbound" }],
    ["sent mail in another language", "Gesendete Objekte", entry, { folder: "sent", direction: "outbound" }],
    ["a file of junk", "Junk E-mail.mbox", entry, { folder: "spam" }],
    ["a file of drafts", "Drafts", entry, { folder: "drafts", direction: "outbound" }],
    [
      "from an address of the mailbox",
      "mail",
      entry,
      { folder: "sent", direction: "outbound" },
      [],
      { from: "Alice <ALICE@example.test>" },
    ],
    [
      "from oneself, arrived",
      "Maildir/cur/1:2,S",
      plain,
      { folder: "inbox", direction: "inbound" },
      ["Received: from x by y; Mon, 05 Jan 2026 08:00:00 +0000"],
      { from: "alice+notes@example.test" },
    ],
    [
      "forged as from oneself, junk",
      "Junk.mbox",
      entry,
      { folder: "spam", direction: "inbound" },
      ["Received: from x by y; Mon, 05 Jan 2026 08:00:00 +0000"],
      { from: "alice@example.test" },
    ],
    ["Maildir: new", "Maildir/new/1", plain, { folder: "inbox", read: false }],
    [
      "Maildir: seen, answered, flagged",
      "Maildir/cur/1:2,FRS",
      plain,
      { folder: "inbox", read: true, thread: { starred: true } },
    ],
    ["Maildir: not seen", "Maildir/cur/1:2,", plain, { read: false }],
    ["Maildir: trashed", "Maildir/cur/1:2,ST", plain, { folder: "trash" }],
    ["Maildir++: sent mail", "Maildir/.Sent/cur/1:2,S", plain, { folder: "sent", direction: "outbound" }],
    [
      "Maildir++: a folder of one's own",
      "Maildir/.Work.Caf&AOk-/cur/1:2,S",
      plain,
      { folder: "archive", thread: { labels: ["Work/Café"] } },
    ],
    ["a nested Maildir", "Mail/Archive/cur/1:2,S", plain, { folder: "archive", thread: { labels: [] } }],
    ["files in folders", "out/Projects/a.eml", plain, { folder: "archive", thread: { labels: ["out/Projects"] } }],
    ["mbox files in folders", "Local/Trash.mbox", entry, { folder: "archive", thread: { labels: ["Local/Trash"] } }],
    [
      "Takeout: inbox, unread",
      "All mail.mbox",
      gmail("Inbox,Unread,Important,Category Promotions"),
      { folder: "inbox", read: false, thread: { labels: [] } },
    ],
    [
      "Takeout: archived, with labels",
      "All mail.mbox",
      gmail('=?UTF-8?Q?Archived,Opened,Starred,Caf=C3=A9,"A, B"?='),
      { folder: "archive", read: true, thread: { starred: true, labels: ["Café", "A, B"] } },
    ],
    ["Takeout: sent", "All mail.mbox", gmail("Sent,Opened"), { folder: "sent", direction: "outbound" }],
    [
      "Takeout: to oneself",
      "All mail.mbox",
      gmail("Inbox,Sent"),
      { folder: "sent", direction: "outbound", thread: { folder: "inbox" } },
    ],
    ["Takeout: spam", "All mail.mbox", gmail("Spam,Unread"), { folder: "spam", read: false }],
    ["Takeout: a draft", "All mail.mbox", gmail("Drafts"), { folder: "drafts" }],
    [
      "labels that the sender wrote",
      "m.mbox",
      entry,
      { folder: "inbox", direction: "inbound", thread: { labels: [] } },
      ["X-Gmail-Labels: Sent,Hers"],
    ],
    [
      "an export's mark that the sender wrote",
      "mail.mbox",
      entry,
      { folder: "inbox", direction: "inbound" },
      ['X-Mailroom-Export: {"kind":"sent","folder":"sent"}'],
    ],
  ];
  for (const [what, name, wrap, { thread = {}, ...expected }, headers, of] of cases) {
    test(what, async () => {
      const found = await placed(name, wrap, headers, of);
      expect(found.message).toMatchObject(expected);
      expect(found.thread).toMatchObject(thread);
    });
  }

  test("the marks of programs are no part of the message", async () => {
    const { message } = await placed("m", gmail("Inbox"), ["Status: RO", "X-Keywords: A", "X-UID: 7", "X-Kept: yes"]);
    const raw = Buffer.from((await app.api.bytes(`/messages/${message.id}/raw`)).body).toString();
    expect(raw).toContain("X-Kept: yes");
    expect(raw).not.toMatch(/^(?:status|x-keywords|x-uid|x-gm-thrid|x-gmail-labels):/im);
  });

  test("a message deleted in Thunderbird, whose file still has it, is skipped", async () => {
    const path = join(files({ Inbox: mboxEntry(letter({ headers: ["X-Mozilla-Status: 0009"] })) }), "Inbox");
    expect(await importInto(app, path)).toMatchObject({ imported: 0, skipped: 1, failed: 0 });
  });

  test("mail without marks gets the folder and state that the import asks for", async () => {
    const path = files({ "a/m.mbox": mboxEntry(letter({ subject: "Asked", headers: ["Status: O"] })) });
    await importInto(app, join(path, "a/m.mbox"), { folder: "archive", read: true });
    expect((await messagesOf(app)).find(({ subject }) => subject === "Asked")).toMatchObject({
      folder: "archive",
      read: true,
    });
  });

  test("received mail is on the alias that it was delivered to", async () => {
    const { core } = app.opened;
    const { store } = core;
    store.transact((tx) => mailboxAdmin.addAlias(core, tx, app.owner.mailboxId, "sales@example.test"));
    const { thread } = await placed("m.eml", plain, ["Delivered-To: sales+x@example.test"]);
    expect(thread.receivedOn).toBe("sales@example.test");
  });
});

describe("what mail apps say of a message", () => {
  const flagsOf = ({ core }: Booted) =>
    Object.fromEntries(
      core.store.db.$client
        .query<{ subject: string; flags: number }, []>(
          "SELECT subject, coalesce(flags, 0) AS flags FROM messages LEFT JOIN imap_messages ON message_seq = seq",
        )
        .all()
        .map(({ subject, flags }) => [subject, flags]),
    );
  const { answered, forwarded, mdnSent } = IMAP_FLAGS;
  const bit = (keyword: string): number => BIT_OF.get(keyword) as number;

  const MAILDIR = {
    "Maildir/dovecot-keywords": "0 Clients\n1 $label2\n2 $Forwarded\n3 NonJunk\n",
    "Maildir/cur/1700000000.a:2,RS": letter({ subject: "answered" }),
    "Maildir/cur/1700000001.b:2,PRSab": letter({ subject: "both, with keywords" }),
    "Maildir/cur/1700000002.c:2,Scd": letter({ subject: "forwarded by keyword" }),
    "Maildir/cur/1700000003.d:2,Sz": letter({ subject: "an unknown keyword" }),
  };

  test("a Maildir: answered, forwarded, and the keywords that Dovecot names beside it; an export keeps them", async () => {
    const booted = await boot();
    expect(await importInto(booted, files(MAILDIR))).toMatchObject({ imported: 4, failed: 0 });
    const flags = {
      answered,
      "both, with keywords": answered | forwarded | bit("$label2"),
      "forwarded by keyword": forwarded | bit("nonjunk"),
      "an unknown keyword": 0,
    };
    expect(flagsOf(booted)).toEqual(flags);
    const labelled = (await messagesOf(booted)).find(({ subject }) => subject === "both, with keywords") as Summary;
    expect((await threadOf(booted, labelled)).labels.toSorted()).toEqual(["Clients", "Work"]);

    const path = join(temporaryFolder(), "mail.mbox");
    const { core } = booted.opened;
    await exportMail(exportMailbox(core, booted.owner.mailboxId), await OWN_FILES.create(path), {
      isInterrupted: () => false,
      onProgress() {},
    });
    expect(readFileSync(path, "latin1")).toContain("X-Status: A\n");
    const other = await boot();
    await importInto(other, path);
    expect(flagsOf(other)).toEqual(flags);
  });

  test("an mbox, as UW, Dovecot and Thunderbird write it", async () => {
    const booted = await boot();
    const marked = (subject: string, ...headers: string[]) => mboxEntry(letter({ subject, headers }));
    const content = [
      marked("uw", "Status: RO", "X-Status: A"),
      marked("keyword", "X-Keywords: $Forwarded $MDNSent $MailFlagBit1 $Important $Other"),
      marked("thunderbird", "X-Mozilla-Status: 1003", "X-Mozilla-Keys: $label1 mine"),
    ];
    await importInto(booted, files({ "m.mbox": content.join("") }));
    expect(flagsOf(booted)).toEqual({
      uw: answered,
      keyword: forwarded | mdnSent | bit("$mailflagbit1") | bit("$important"),
      thunderbird: answered | forwarded | bit("$label1"),
    });
    const last = (await messagesOf(booted)).find(({ subject }) => subject === "thunderbird") as Summary;
    expect((await threadOf(booted, last)).labels.toSorted()).toEqual(["Important", "m", "mine"]);
  });

  test("mail that was there keeps its own, and later mail has none", async () => {
    const booted = await boot();
    await importInto(booted, files({ "a.eml": letter({ subject: "before" }) }));
    await importInto(booted, files({ "Maildir/cur/1.a:2,RS": letter({ subject: "answered" }) }));
    await importInto(booted, files({ "b.eml": letter({ subject: "after" }) }));
    expect(flagsOf(booted)).toEqual({ before: 0, answered, after: 0 });
  });
});

describe("dates", () => {
  const arrived = Date.parse("2025-12-24T18:30:00Z");
  const dateOf = async (name: string, wrap: (message: string) => string, headers: string[], date: string) =>
    (await placed(name, wrap, headers, { date })).message.date;

  test("the message's own Date comes first", async () => {
    expect(await dateOf("m", (m) => mboxEntry(m, arrived), [], "Tue, 23 Dec 2025 08:00:00 +0100")).toBe(
      "2025-12-23T07:00:00.000Z",
    );
  });
  test("without one, the date of the From line", async () => {
    expect(
      await dateOf("m", (m) => mboxEntry(m, arrived), ["Received: from x; Mon, 1 Dec 2025 08:00:00 +0000"], "soon"),
    ).toBe("2025-12-24T18:30:00.000Z");
  });
  test("else the date of the topmost Received field", async () => {
    expect(
      await dateOf(
        "m.eml",
        plain,
        ["Received: from x; Mon, 1 Dec 2025 08:00:00 +0000", "Received: from w; Mon, 1 Dec 2025 07:00:00 +0000"],
        "soon",
      ),
    ).toBe("2025-12-01T08:00:00.000Z");
  });
  test("of a Maildir, the second in the name of the file, or the file's own time if that is earlier", async () => {
    const booted = await boot();
    const names = ["1700000000.M1.host:2,S", "1700000000.M2.host:2,S", "odd:2,S"];
    const path = files(
      Object.fromEntries(
        names.map((name) => [
          `Maildir/cur/${name}`,
          letter({ subject: name, headers: ["Received: by x.example; Sun, 04 Jan 2026 10:00:00 +0000"] }),
        ]),
      ),
    );
    const times = ["2026-02-03T04:05:06Z", "2020-02-03T04:05:06Z", "2026-02-03T04:05:06Z"];
    for (const [i, name] of names.entries()) {
      utimesSync(join(path, "Maildir/cur", name), new Date(times[i] as string), new Date(times[i] as string));
    }
    await importInto(booted, path);
    const filed = booted.core.store.db.$client
      .query<{ subject: string; at: number }, []>("SELECT subject, filed_at AS at FROM messages")
      .all()
      .map(({ subject, at }) => [subject, new Date(at).toISOString()]);
    expect(Object.fromEntries(filed)).toEqual({
      [names[0] as string]: new Date(1_700_000_000_000).toISOString(),
      [names[1] as string]: "2020-02-03T04:05:06.000Z",
      [names[2] as string]: "2026-01-04T10:00:00.000Z",
    });
  });

  test("else the time at which the file was written", async () => {
    const folder = files({ "m.eml": letter({ subject: "Written", date: "soon" }) });
    utimesSync(join(folder, "m.eml"), new Date(arrived), new Date(arrived));
    await importInto(app, folder);
    expect((await messagesOf(app)).find(({ subject }) => subject === "Written")?.date).toBe("2025-12-24T18:30:00.000Z");
  });
});

test("symbolic links are not followed, so that a folder of mail cannot expose other files", async () => {
  const booted = await boot();
  const elsewhere = files({ secret: letter({ subject: "Elsewhere" }), "new/1": letter({ subject: "There" }) });
  const folder = files({ "cur/1:2,S": letter({ subject: "Here" }) });
  symlinkSync(join(elsewhere, "secret"), join(folder, "cur/2:2,S"));
  symlinkSync(join(elsewhere, "secret"), join(folder, "cur/3.eml"));
  symlinkSync(join(elsewhere, "new"), join(folder, "new"));
  expect(await importInto(booted, folder)).toMatchObject({ imported: 1, skipped: 0, failed: 0 });
  expect((await messagesOf(booted)).map(({ subject }) => subject)).toEqual(["Here"]);
});

test("what is neither a file nor a folder is not read", async () => {
  expect(await Array.fromAsync(findMessagesInFiles("/dev/zero", 1_000_000))).toEqual([
    { path: "/dev/zero", reason: "neither a file nor a folder" },
  ]);
});

test("marks have a bound, whatever a sender wrote into fields of their names", () => {
  const content = Buffer.from(`X-Gmail-Labels: ${"a,".repeat(1_000_000)}\nSubject: x\n\nx`);
  const { marks } = unwrapImportedMessage({ content, fromLine: "From a@x Thu Jan  1 00:00:00 2026", unquoted: false });
  expect(marks.labels.length).toBeLessThan(40_000);
});

test("an imported draft is opened, changed and discarded like any other", async () => {
  const { message } = await placed("Drafts/cur/1:2,DS", plain);
  const { core, owner } = app;
  const caller = { ...owner, role: "owner", email: "alice@example.test", scopes: new Set<never>() } as const;
  const draft = readDraft(core.db, caller, message.threadId);
  expect(draft).toMatchObject({ subject: message.subject, revision: 1, unfinished: { to: "", cc: "", bcc: "" } });
  const type = { contentType: "text/plain", parameters: [], alternative: false };
  const file = { filename: "a.txt", unnamed: false, ...type, size: 0, inline: false, contentId: null, blob: "" };
  core.store.transact((tx) => attachFiles(core, tx, draft, [file]));
  expect(readDraft(core.db, caller, message.threadId).attachments).toMatchObject([{ filename: "a.txt" }]);
  core.store.transact((tx) => removeDraft(tx, draft));
  expect(() => readDraft(core.db, caller, message.threadId)).toThrow("no such thread");
});

describe("mail that the mailbox already has", () => {
  test("importing again changes nothing", async () => {
    const booted = await boot();
    const folder = files({
      "a.mbox": mboxEntry(letter({ subject: "One" })) + mboxEntry(letter({ subject: "Two", messageId: "" })),
      "Sent/cur/1:2,S": letter({ subject: "Three" }),
      "Drafts/cur/1:2,DS": letter({ subject: "Four" }),
    });
    expect(await importInto(booted, folder)).toMatchObject({ imported: 4, skipped: 0, failed: 0 });
    const before = await messagesOf(booted);
    expect(await importInto(booted, folder)).toMatchObject({ imported: 0, skipped: 4, failed: 0 });
    expect(await messagesOf(booted)).toEqual(before);
  });

  test("the same message twice in one import is filed once", async () => {
    const booted = await boot();
    const message = letter({ subject: "Twice" });
    const folder = files({ "INBOX/cur/1:2,S": message, "All Mail/cur/1:2,S": `Received: from x\n${message}` });
    expect(await importInto(booted, folder)).toMatchObject({ imported: 1, skipped: 1 });
  });

  test("a message that arrived over SMTP is recognised in an mbox, quoted and with other line ends", async () => {
    const booted = await boot();
    const message = letter({ subject: "Arrived", text: "Dear Alice,\n\nFrom here, all is well.\n>From there too." });
    const sender = mailer(booted.mx);
    await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, message);
    sender.close();
    const kept = `Received: from elsewhere\n${message.replace("\n\n", "\nStatus: RO\n\n")}`;
    const path = join(files({ m: mboxEntry(kept) }), "m");
    expect(await importInto(booted, path)).toMatchObject({ imported: 0, skipped: 1 });
  });

  test("another message with the same Message-ID is filed", async () => {
    const booted = await boot();
    const path = files({
      "a.eml": letter({ messageId: "<same@x>", text: "one" }),
      "b.eml": letter({ messageId: "<same@x>", text: "two" }),
    });
    expect(await importInto(booted, path)).toMatchObject({ imported: 2, skipped: 0 });
  });
});

describe("conversations", () => {
  const root = letter({ subject: "Plan", messageId: "<root@x>" });
  const answer = letter({
    subject: "Re: Plan",
    messageId: "<answer@x>",
    from: "Alice <alice@example.test>",
    to: "carol@remote.example",
    headers: ["In-Reply-To: <root@x>", "References: <root@x>"],
  });
  const second = letter({ subject: "Re: Plan", messageId: "<second@x>", headers: ["References: <root@x> <answer@x>"] });

  for (const order of [
    [root, answer, second],
    [second, answer, root],
    [answer, second, root],
  ]) {
    test(`form in any order: ${order.map((message) => [root, answer, second].indexOf(message)).join(" ")}`, async () => {
      const booted = await boot();
      await importInto(booted, files({ "m.mbox": order.map((message) => mboxEntry(message)).join("") }), {
        folder: "archive",
      });
      const found = await messagesOf(booted);
      expect(found.length).toBe(3);
      expect(new Set(found.map(({ threadId }) => threadId)).size).toBe(1);
    });
  }

  test("include mail that the mailbox already has, which stays in its folder, and mail that arrives later", async () => {
    const booted = await boot();
    const sender = mailer(booted.mx);
    await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, root);
    await importInto(booted, files({ "m/Sent.mbox": mboxEntry(answer) }));
    const [first] = await messagesOf(booted);
    await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, second);
    sender.close();
    const found = await messagesOf(booted);
    expect(new Set(found.map(({ threadId }) => threadId))).toEqual(new Set([first?.threadId ?? ""]));
    expect(found.length).toBe(3);
    expect(await threadOf(booted, found[0] as Summary)).toMatchObject({ folder: "inbox", unread: true });
  });

  test("keep mail in trash or spam apart from other mail, in any order", async () => {
    const folders = ["Trash", "Junk", "INBOX"];
    for (const order of [folders, folders.toReversed()]) {
      const booted = await boot();
      for (const [i, folder] of order.entries()) {
        const message = [root, second, answer][i] as string;
        await importInto(
          booted,
          files({ [`${folder}/cur/1:2,S`]: message.replace(/^From: .*$/m, "From: c@x.example") }),
        );
      }
      const found = await messagesOf(booted);
      expect(found.map(({ folder }) => folder).sort()).toEqual(["inbox", "spam", "trash"]);
      expect(new Set(found.map(({ threadId }) => threadId)).size).toBe(3);
    }
  });

  test("get the labels and stars of all their messages", async () => {
    const booted = await boot();
    const folder = files({
      "INBOX/cur/1:2,S": root,
      "Work/cur/1:2,SF": second,
      "Home/cur/1:2,S": answer.replace("alice@", "x@"),
    });
    await importInto(booted, folder);
    const [message] = await messagesOf(booted);
    expect(await threadOf(booted, message as Summary)).toMatchObject({
      folder: "inbox",
      starred: true,
      labels: ["Home", "Work"],
    });
  });
});

test("labels beyond those that a conversation takes are not looked at", async () => {
  const booted = await boot();
  await importInto(booted, files({ "INBOX/cur/1:2,S": letter({ messageId: "<1@x>" }) }));
  const { $client: sqlite } = booted.core.store.db;
  for (const label of ["label1", "label4999"]) {
    sqlite.run(
      `INSERT INTO key_changes (at, workspace_id, key_id, mailbox_id, thread_seq, thread_id, field, label_key, before)
       SELECT 0, 'w', 'key_1', mailbox_id, seq, id, 'label', ?, 'null' FROM threads`,
      [label],
    );
  }
  const keywords = Array.from({ length: 5_000 }, (_, n) => `label${n}`).join(" ");
  const answer = letter({ messageId: "<2@x>", headers: ["In-Reply-To: <1@x>"] });
  await importInto(booted, files({ "more.mbox": mboxEntry(`X-Keywords: ${keywords}\n${answer}`) }));
  expect(sqlite.query("SELECT count(*) AS n FROM thread_labels").get()).toEqual({ n: 100 });
  const settled = "SELECT label_key AS label FROM key_changes WHERE settled_by IS NOT NULL";
  expect(sqlite.query(settled).all()).toEqual([{ label: "label1" }]);
});

describe("imported mail does not count as arriving", () => {
  test("no event, no junk training, no notice to anybody", async () => {
    const booted = await boot();
    const folder = files({
      "INBOX/cur/1:2,": letter({ subject: "In", messageId: "<in@x>" }),
      "Junk/cur/1:2,": letter({ subject: "Bad", from: "bad@remote.example" }),
      "Sent/cur/1:2,S": letter({ from: "alice@example.test", headers: ["In-Reply-To: <in@x>"] }),
    });
    await importInto(booted, folder);
    const { $client: sqlite } = booted.core.store.db;
    for (const table of ["events", "sender_verdicts", "junk_filters", "outbound_messages", "message_judgements"]) {
      expect(sqlite.query(`SELECT count(*) AS n FROM ${table}`).get()).toEqual({ n: 0 });
    }
  });

  test("a message that fails DMARC is filed in the folder that it was in", async () => {
    const { message } = await placed("m.eml", plain, ["Authentication-Results: mx; dmarc=fail"]);
    expect(message).toMatchObject({ folder: "inbox" });
    expect((await app.api.get(`/messages/${message.id}`)).body.message).not.toHaveProperty("auth");
  });
});

describe("Bcc", () => {
  const bcc = ["Bcc: dora@remote.example"];
  const shown = async ({ message }: { message: Summary }) =>
    (await app.api.get<{ message: { bcc?: object[] } }>(`/messages/${message.id}`)).body.message.bcc;

  test("the mailbox's owner sees the Bcc of mail that they sent", async () => {
    expect(await shown(await placed("Sent", entry, bcc))).toEqual([{ email: "dora@remote.example" }]);
  });
  test("nobody sees other people's Bcc in received mail", async () => {
    expect(await shown(await placed("m", entry, bcc))).toBeUndefined();
  });
});

describe("mail that cannot be imported or parsed", () => {
  test("is reported by file and position, and the rest is imported", async () => {
    const booted = await boot();
    const folder = files({
      "a.mbox": `${mboxEntry(letter({ subject: "Good" }))}From x@y Thu Jan  1 00:00:00 2026\n\n${mboxEntry(letter())}`,
      "b.eml": "",
      "notes.txt": "no mail",
    });
    const result = await importInto(booted, folder);
    expect(result).toMatchObject({ imported: 2, skipped: 0, failed: 2 });
    const failures = result.sources.flatMap((source) => source.failures);
    expect(failures).toEqual([
      { place: expect.stringMatching(/^byte \d+$/), reason: "empty" },
      { place: "b.eml", reason: "empty" },
    ]);
  });

  test("a file that is not mail is reported", async () => {
    const path = join(files({ "notes.txt": "no mail\n" }), "notes.txt");
    expect(await importInto(await boot(), path)).toMatchObject({
      failed: 1,
      sources: [
        {
          path,
          failures: [{ place: path, reason: expect.stringMatching(/^neither an mbox, nor a Maildir, nor a message/) }],
        },
      ],
    });
  });

  test("a folder that cannot be read is reported, and the others are read", async () => {
    const names = ["a/1.eml", "b/2.eml", "c/cur/3:2,S", "c/new/4", "d/5.eml"];
    const path = files(Object.fromEntries(names.map((name) => [name, letter()])));
    const found: string[] = [];
    for await (const each of findMessagesInFiles(path, 1_000_000)) {
      found.push("reason" in each ? `${relative(path, each.path)}: ${each.reason.slice(0, 6)}` : each.place);
      // Their names are known by now, and they are listed next.
      if (found.length === 1) rmSync(join(path, "b"), { recursive: true });
      if (found.length === 3) rmSync(join(path, "c/new"), { recursive: true });
    }
    expect(found).toEqual(["1.eml", "b: ENOENT", "3:2,S", "c/new: ENOENT", "5.eml"]);
  });

  test("a message that is too large is reported", async () => {
    const messages = (async function* () {
      const source = { path: "x", format: "messages" as const, labels: [] };
      yield { source, place: "x", content: Buffer.from(letter()), size: 65 * 1024 * 1024, unquoted: true };
    })();
    const result = await importInto(app, "", { request: { messages } });
    expect(result).toMatchObject({ imported: 0, failed: 1 });
    expect(result.sources[0]?.failures[0]?.reason).toBe(`too large: ${65 * 1024 * 1024} bytes`);
  });

  test("a message that no parser can read is filed with its original", async () => {
    const nested = `Content-Type: multipart/mixed; boundary=b\n\n${"--b\nContent-Type: multipart/mixed; boundary=b\n\n".repeat(300)}`;
    const booted = await boot();
    await importInto(booted, files({ "m.eml": `Subject: Deep\nFrom: c@x.example\n${nested}` }));
    const [message] = await messagesOf(booted);
    const { body } = await booted.api.get<{ message: { attachments: { filename: string }[] } }>(
      `/messages/${message?.id}`,
    );
    expect(body.message.attachments.map(({ filename }) => filename)).toEqual(["original.eml"]);
  });
});

describe("the import stops", () => {
  const many = (n: number) =>
    files({
      "m.mbox": Array.from({ length: n }, (_, i) =>
        mboxEntry(letter({ subject: `Many ${i}`, messageId: `<many-${i}@x>` })),
      ).join(""),
    });

  test("at the quota, with the mail that fits filed; with more room it continues", async () => {
    const booted = await boot();
    const {
      core: { store },
    } = booted.opened;
    const path = many(8);
    const quota = (bytes: number) => store.transact((tx) => mailboxAdmin.setQuota(tx, booted.owner.mailboxId, bytes));
    quota(1_200);
    const first = await importInto(booted, path);
    expect(first).toMatchObject({ stopped: "quota", failed: 0 });
    expect(first.imported).toBeGreaterThan(1);
    expect(first.imported).toBeLessThan(8);
    expect((await messagesOf(booted)).length).toBe(first.imported);
    quota(1_000_000);
    expect(await importInto(booted, path)).toMatchObject({ imported: 8 - first.imported, skipped: first.imported });
  });

  test("if the disk is full, keeping the mail filed before; with room it continues", async () => {
    const booted = await boot();
    const path = many(8);
    const { transact } = booted.core.store;
    let batches = 0;
    const first = await importInto(booted, path, {
      transact(work) {
        if (++batches === 2) throw unavailable("The mail store is briefly unavailable; try again");
        return transact(work);
      },
    });
    expect(first).toMatchObject({ stopped: "unavailable", imported: 3, failed: 0 });
    expect((await messagesOf(booted)).length).toBe(3);
    expect(await importInto(booted, path)).toMatchObject({ imported: 5, skipped: 3 });
  });

  test("when interrupted, with the mail of its window filed", async () => {
    const booted = await boot();
    const path = many(8);
    let asked = 0;
    const first = await importInto(booted, path, { request: { isInterrupted: () => ++asked > 5 } });
    expect(first).toMatchObject({ stopped: "interrupted", imported: 5 });
    expect(await importInto(booted, path)).toMatchObject({ imported: 3, skipped: 5 });
  });
});
