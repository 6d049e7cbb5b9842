/** Labels as mailboxes of their own, for a person who wants their mail apps to see them. */
import { describe, expect, test } from "bun:test";
import { ImapFlow } from "imapflow";
import * as developers from "../../src/admin/developers.ts";
import { renewUidValidity } from "../../src/mailbox/imap/uids.ts";
import type { ImapAccount, Reply } from "../harness/clients/imap-client.ts";
import { copied, type ImapWorld, sharedImapWorld, uidsOf } from "../harness/servers/imap-world.ts";
import { arrive, labelled, patch, validityOf, want } from "./labels.ts";

/** So many subjects. */
const numbered = (count: number): string[] => Array.from({ length: count }, (_, i) => `Mail ${i}`);

const labelsOf = async ({ app }: ImapWorld, threadId: string): Promise<string[]> =>
  (await app.api.get<{ thread: { labels: string[] } }>(`/threads/${threadId}`)).body.thread.labels.sort();

const lists = ({ untagged }: Reply): string[] =>
  untagged.flatMap((line) => /^\* LIST (.*)$/.exec(line)?.[1]?.replace(' "/"', "") ?? []);

/** The names that a LIST gives of mailboxes below Labels. */
const labelNames = async (mail: ImapAccount): Promise<string[]> =>
  lists(await mail.say('LIST "" Labels/*')).map((line) => line.replace(/^.* "|"$/g, ""));

const code = ({ status, text }: Reply): string => `${status} ${/\[([A-Z-]+)/.exec(text)?.[1] ?? ""}`.trim();

/** The subjects of a mailbox by UID, ascending. */
async function subjects(mail: ImapAccount, name: string): Promise<[uid: number, subject: string][]> {
  expect(await mail.say(`EXAMINE ${name}`)).toMatchObject({ status: "OK" });
  const { untagged } = await mail.say("UID FETCH 1:* (BODY.PEEK[HEADER.FIELDS (SUBJECT)])");
  return untagged.flatMap((line) => {
    const [, uid] = /UID (\d+)/.exec(line) ?? [];
    const [, subject] = /^Subject: (.*?)\r?$/m.exec(line) ?? [];
    return uid === undefined || subject === undefined ? [] : [[Number(uid), subject] as [number, string]];
  });
}

const namesIn = async (mail: ImapAccount, name: string): Promise<string[]> =>
  (await subjects(mail, name)).map(([, subject]) => subject).sort();

/** The UIDs of messages that a search finds. */
const found = ({ untagged }: Reply): number[] =>
  (untagged.find((line) => line.startsWith("* SEARCH")) ?? "").split(" ").slice(2).map(Number);

describe("names", () => {
  test("a label is a mailbox for those alone who want that", async () => {
    const world = await sharedImapWorld();
    await arrive(world, "One", "Work");
    const mail = await world.client();
    expect(lists(await mail.say('LIST "" *'))).toHaveLength(6);
    expect(code(await mail.say("SELECT Labels/Work"))).toBe("NO NONEXISTENT");
    for (const [command, refused] of [
      ["CREATE Labels/New", "NO CANNOT"],
      ["DELETE Labels/Work", "NO NONEXISTENT"],
      ["RENAME Labels/Work Labels/New", "NO NONEXISTENT"],
    ] as const) {
      expect([command, code(await mail.say(command))]).toEqual([command, refused]);
    }
    want(world);
    expect(lists(await mail.say('LIST "" *')).slice(0, 1)).toEqual(['(\\Noselect \\HasChildren) "Labels"']);
    expect(await labelNames(mail)).toEqual(["Labels/Work"]);
    expect(code(await mail.say("SELECT Labels"))).toBe("NO NONEXISTENT");
    expect(await namesIn(mail, "Labels/Work")).toEqual(["One"]);
    const ben = world.member("Ben", "full");
    const his = await world.client(ben);
    expect(lists(await his.say('LIST "" *Labels*'))).toEqual([]);
  });

  test("nothing is written for mail of people who do not want them", async () => {
    const world = await sharedImapWorld();
    const { $client } = world.app.core.store.db;
    const written = () =>
      ["imap_labels", "imap_labelled", "imap_label_vanished"].map((table) =>
        $client.query(`SELECT * FROM ${table}`).all(),
      );
    const before = written();
    await arrive(world, "One", "Work");
    const mail = await world.client();
    await mail.say("SELECT INBOX");
    await mail.say("STORE 1 +FLAGS (Later)");
    expect(written()).toEqual(before);
  });

  test("a `/` in a label makes a level, and what no name can have is `_`", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await arrive(world, "One", "Work/Urgent/Now", "Work", "/a", "b//c", "d/", "e\tf", 'g"\\h', "Müll & mehr");
    const all = lists(await mail.say('LIST "" Labels*'));
    expect(all.sort()).toEqual(
      [
        '(\\Noselect \\HasChildren) "Labels"',
        '(\\Noselect \\HasChildren) "Labels/_"',
        '(\\HasNoChildren \\Subscribed) "Labels/_/a"',
        '(\\Noselect \\HasChildren) "Labels/b"',
        '(\\Noselect \\HasChildren) "Labels/b/_"',
        '(\\HasNoChildren \\Subscribed) "Labels/b/_/c"',
        '(\\Noselect \\HasChildren) "Labels/d"',
        '(\\HasNoChildren \\Subscribed) "Labels/d/_"',
        '(\\HasNoChildren \\Subscribed) "Labels/e_f"',
        '(\\HasNoChildren \\Subscribed) "Labels/g\\"\\\\h"',
        '(\\HasNoChildren \\Subscribed) "Labels/M&APw-ll &- mehr"',
        '(\\HasChildren \\Subscribed) "Labels/Work"',
        '(\\Noselect \\HasChildren) "Labels/Work/Urgent"',
        '(\\HasNoChildren \\Subscribed) "Labels/Work/Urgent/Now"',
      ].sort(),
    );
    for (const line of all.filter((one) => !one.includes("Noselect"))) {
      expect(await namesIn(mail, line.slice(line.indexOf('"')))).toEqual(["One"]);
    }
    const levels = lists(await mail.say('LIST (SUBSCRIBED RECURSIVEMATCH) "" Labels/%'));
    expect(levels).toContain('(\\HasChildren \\Subscribed) "Labels/Work" ("CHILDINFO" ("SUBSCRIBED"))');
    expect(levels).toContain('(\\Noselect \\HasChildren) "Labels/b" ("CHILDINFO" ("SUBSCRIBED"))');
  });

  test("names are in modified UTF-7, and with IMAP4rev2 in UTF-8", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await arrive(world, "One", "Müll");
    expect(await labelNames(mail)).toEqual(["Labels/M&APw-ll"]);
    expect(lists(await mail.say('LIST "" Labels/M&APw-*'))).toHaveLength(1);
    expect(await namesIn(mail, "Labels/M&APw-ll")).toEqual(["One"]);
    expect(await mail.say("CREATE Labels/&AMQ-pfel")).toMatchObject({ status: "OK" });
    await mail.say("ENABLE IMAP4rev2");
    const utf8 = (text: string): string => Buffer.from(text, "utf8").toString("latin1");
    expect(await labelNames(mail)).toEqual([utf8("Labels/Müll"), utf8("Labels/Äpfel")]);
    expect(await namesIn(mail, utf8('"Labels/Müll"'))).toEqual(["One"]);
    const { untagged } = await mail.say(`SELECT "${utf8("Labels/Müll")}"`);
    expect(untagged).toContain(utf8('* LIST (\\HasNoChildren \\Subscribed) "/" "Labels/Müll"'));
  });

  test("labels of others' mailboxes are below these, by the access that their people gave", async () => {
    const world = await sharedImapWorld();
    const threadId = await arrive(world, "Shared", "Work");
    await arrive(world, "Two", "Work");
    const prefix = `Shared/${world.alice}/Labels`;
    for (const access of ["view", "send"] as const) {
      const who = world.member(access, access);
      want(world, true, who.userId);
      const mail = await world.client(who);
      expect(lists(await mail.say('LIST "" *Labels*'))).toEqual(
        expect.arrayContaining([
          `(\\Noselect \\HasChildren) "${prefix}"`,
          `(\\HasNoChildren \\Subscribed) "${prefix}/Work"`,
          '(\\Noselect \\HasNoChildren) "Labels"',
        ]),
      );
      expect(await namesIn(mail, `${prefix}/Work`)).toEqual(["Shared", "Two"]);
      const { untagged } = await mail.say(`SELECT ${prefix}/Work`);
      expect(untagged).toContain("* OK [PERMANENTFLAGS (\\Seen)] Flags that are kept");
      expect((await mail.say("STORE 1 +FLAGS (\\Seen)")).status).toBe("OK");
      for (const command of [
        "STORE 1 +FLAGS (\\Deleted)",
        "STORE 1 -FLAGS (Work)",
        `MOVE 1 Shared/${world.alice}/Archive`,
        `COPY 1 ${prefix}/Other`,
        `CREATE ${prefix}/Other`,
        `DELETE ${prefix}/Work`,
        `RENAME ${prefix}/Work ${prefix}/Other`,
        `APPEND ${prefix}/Work {3+}\r\nA:b`,
      ]) {
        expect([command, code(await mail.say(command))]).toEqual([
          command,
          command.includes("COPY") ? "NO TRYCREATE" : "NO NOPERM",
        ]);
      }
      // Into a mailbox of their own it is a copy, with its labels.
      expect((await mail.say("COPY 1 INBOX")).status).toBe("OK");
      expect(await namesIn(mail, "Labels/Work")).toEqual(["Shared"]);
    }
    expect(await labelsOf(world, threadId)).toEqual(["Work"]);
  });

  test("a key that only reads sees labels and changes none", async () => {
    const world = await labelled();
    await arrive(world, "One", "Work");
    const { core } = world.app.opened;
    const { store } = core;
    const { userId } = world.app.owner;
    const { key } = store.transact((tx) =>
      developers.createKey(core, tx, { userId, name: "Reader", scopes: ["read"] }),
    );
    const mail = await world.client({ email: world.alice, key });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["One"]);
    await mail.say("SELECT Labels/Work");
    for (const command of ["CREATE Labels/New", "DELETE Labels/Work", "RENAME Labels/Work Labels/X", "MOVE 1 Trash"]) {
      expect([command, code(await mail.say(command))]).toEqual([command, "NO NOPERM"]);
    }
  });
});

describe("what is in it", () => {
  test("messages of conversations with the label, but for those in Trash and Junk", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work");
    const two = await arrive(world, "Two", "Work");
    await arrive(world, "Three");
    await world.arrive({ subject: "Re: One", headers: ["In-Reply-To: <none@x>"] });
    await patch(world, two, { folder: "trash" });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["One"]);
    await patch(world, two, { folder: "archive" });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["One", "Two"]);
    await patch(world, one, { folder: "spam" });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["Two"]);
    await patch(world, two, { removeLabels: ["work"] });
    expect(await namesIn(mail, "Labels/Work")).toEqual([]);
  });

  test("UIDs grow, and none is given twice", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work");
    await arrive(world, "Two", "Work");
    expect(await subjects(mail, "Labels/Work")).toEqual([
      [1, "One"],
      [2, "Two"],
    ]);
    await patch(world, one, { folder: "trash" });
    await arrive(world, "Three", "Work");
    expect((await subjects(mail, "Labels/Work")).map(([uid]) => uid)).toEqual([2, 3]);
    await patch(world, one, { folder: "inbox" });
    expect(await subjects(mail, "Labels/Work")).toEqual([
      [2, "Two"],
      [3, "Three"],
      [4, "One"],
    ]);
    await patch(world, one, { folder: "archive" });
    // Where it is otherwise makes no difference here.
    expect((await subjects(mail, "Labels/Work")).map(([uid]) => uid)).toEqual([2, 3, 4]);
  });

  test("numbering that was cut short goes on, around what came and went meanwhile", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const threads: string[] = [];
    for (const name of ["A", "B", "C", "D"]) threads.push(await arrive(world, name, "Work"));
    await mail.say("SELECT INBOX");
    await mail.say("STATUS Labels/Work (MESSAGES)");
    const { $client } = app.core.store.db;
    // As after kill -9: two have a number.
    $client.run("UPDATE imap_labels SET filled = 0, uid_next = 5");
    $client.run("DELETE FROM imap_labelled WHERE uid > 2");
    await patch(world, threads[0] as string, { folder: "trash" });
    await arrive(world, "E", "Work");
    expect(await namesIn(mail, "Labels/Work")).toEqual(["B", "C", "D", "E"]);
    const uids = (await subjects(mail, "Labels/Work")).map(([uid]) => uid);
    expect([uids[0], new Set(uids).size, uids]).toEqual([2, 4, uids.toSorted((one, other) => one - other)]);
  });

  test("on a full disk it is read as it was, and what changed is seen once there is room", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const one = await arrive(world, "One", "Work");
    await arrive(world, "Two", "Work");
    expect(await namesIn(mail, "Labels/Work")).toEqual(["One", "Two"]);
    const { $client } = app.core.store.db;
    await patch(world, one, { folder: "trash" });
    const pages = $client.query<{ n: number }, []>("SELECT page_count AS n FROM pragma_page_count").get()?.n ?? 0;
    $client.run("CREATE TABLE filler (octets)");
    $client.run(
      `CREATE TRIGGER fills BEFORE UPDATE OF labelled_through ON imap_folders
       BEGIN INSERT INTO filler VALUES (zeroblob(1000000)); END`,
    );
    $client.run(`PRAGMA max_page_count = ${pages + 50}`);
    for (const command of ["NOOP", "FETCH 1:* (UID FLAGS)", "UID SEARCH ALL", "STATUS Labels/Work (MESSAGES)"]) {
      expect([command, (await mail.say(command)).status]).toEqual([command, "OK"]);
    }
    expect(await namesIn(mail, "Labels/Work")).toEqual(["One", "Two"]);
    $client.run("PRAGMA max_page_count = 1000000");
    expect((await mail.say("NOOP")).untagged).toEqual(["* 1 EXPUNGE"]);
    $client.run("DROP TRIGGER fills");
    $client.run("DROP TABLE filler");
  });

  test("a draft that is written anew has a new UID, and nothing else has", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const content = { from: world.alice, to: "bob@remote.example", subject: "Draft", text: "one" };
    const { body: made } = await world.app.api.post<{ draftId: string; revision: number }>(
      "/api/ext/v1/drafts",
      content,
    );
    await mail.say("SELECT Drafts");
    await mail.say("STORE 1 +FLAGS (Work)");
    expect(await subjects(mail, "Labels/Work")).toEqual([[1, "Draft"]]);
    await mail.say("SELECT Labels/Work");
    const text = { revision: made.revision, text: "two" };
    expect((await world.app.api.patch(`/api/ext/v1/drafts/${made.draftId}`, text)).status).toBe(200);
    // Under the UID that it had there is nothing of what it is now.
    expect((await mail.say("UID FETCH 1 (BODY.PEEK[])")).untagged.join()).not.toContain("two");
    await mail.say("UID STORE 1 +FLAGS (\\Flagged)");
    await mail.say("NOOP");
    expect(await subjects(mail, "Labels/Work")).toEqual([[2, "Draft"]]);
    expect((await mail.say("UID FETCH 2 (FLAGS)")).untagged.join()).not.toContain("Flagged");
  });

  test("it is fetched, searched, marked and counted as a folder is", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work");
    await arrive(world, "Two", "Work");
    await patch(world, one, { folder: "archive", unread: false });
    const { untagged } = await mail.say(
      "STATUS Labels/Work (MESSAGES UNSEEN UIDNEXT DELETED SIZE HIGHESTMODSEQ MAILBOXID)",
    );
    const status = /MESSAGES 2 UNSEEN 1 UIDNEXT 3 DELETED 0 SIZE [1-9]\d* HIGHESTMODSEQ \d+ MAILBOXID \(mbx_\w+\)/;
    expect(untagged.join()).toMatch(status);
    expect(untagged.join()).toContain('"Labels/Work"');
    const { untagged: listed } = await mail.say('LIST "" Labels/* RETURN (STATUS (MESSAGES))');
    expect(listed).toContain('* STATUS "Labels/Work" (MESSAGES 2)');
    const opened = (await mail.say("SELECT Labels/Work (CONDSTORE)")).untagged.join("\n");
    expect(opened).toContain("* 2 EXISTS");
    expect(/MAILBOXID (\S+)\]/.exec(opened)?.[1]).toBe(/MAILBOXID (\S+)\)/.exec(untagged.join())?.[1] as string);
    expect(found(await mail.say("UID SEARCH UNSEEN SUBJECT Two"))).toEqual([2]);
    const { untagged: fetched } = await mail.say("FETCH 1:* (UID FLAGS EMAILID THREADID ENVELOPE BODYSTRUCTURE)");
    expect(fetched).toHaveLength(2);
    expect(fetched[0]).toContain(`THREADID (${one})`);
    const { untagged: stored } = await mail.say("UID STORE 2 +FLAGS (\\Answered \\Flagged Later)");
    const modseq = Number(/MODSEQ \((\d+)\)/.exec(stored.join())?.[1]);
    expect(stored.join()).toMatch(/FLAGS \(\\Flagged \\Answered Work Later\)/);
    expect(await mail.say(`UID STORE 2 (UNCHANGEDSINCE ${modseq - 1}) +FLAGS (\\Seen)`)).toMatchObject({
      text: expect.stringContaining("[MODIFIED 2]"),
    });
    await mail.say(`UID STORE 2 (UNCHANGEDSINCE ${modseq}) -FLAGS (Later)`);
    expect((await mail.say("STATUS Labels/Work (HIGHESTMODSEQ)")).untagged.join()).toContain(
      `HIGHESTMODSEQ ${modseq + 1}`,
    );
    await mail.say("SELECT INBOX");
    expect((await mail.say("FETCH 1 (FLAGS)")).untagged.join()).toContain("(\\Flagged \\Answered Work)");
  });

  test("SEARCH finds by flags, texts and ids what is there now, told or not", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work");
    const two = await arrive(world, "Two", "Work");
    await arrive(world, "Elsewhere");
    const long = await world.arrive({ subject: "Long", text: `begin ${"filler words ".repeat(8_000)} needleword` });
    await patch(world, long.threadId, { labels: ["Work"], folder: "archive" });
    await mail.say("SELECT INBOX");
    await mail.say("STORE 2 +FLAGS (\\Deleted)");
    await mail.say("SELECT Labels/Work");
    const search = async (keys: string): Promise<number[]> => found(await mail.say(`UID SEARCH ${keys}`));
    // Of the folder's \Deleted, nothing is said here.
    expect(await search("DELETED")).toEqual([]);
    await mail.say("STORE 1 +FLAGS (\\Deleted \\Answered)");
    expect([await search("DELETED"), await search("UNDELETED"), await search("ANSWERED")]).toEqual([[1], [2, 3], [1]]);
    expect(await search("UNSEEN")).toEqual([1, 2, 3]);
    await patch(world, two, { unread: false, starred: true });
    expect([await search("UNSEEN"), await search("FLAGGED"), await search("KEYWORD Work")]).toEqual([
      [1, 3],
      [2],
      [1, 2, 3],
    ]);
    expect([await search("TEXT Elsewhere"), await search("BODY needleword")]).toEqual([[], [3]]);
    expect([await search(`THREADID ${one}`), await search("LARGER 50000"), await search("SUBJECT two")]).toEqual([
      [1],
      [3],
      [2],
    ]);
  });

  test("what changes elsewhere is told in IDLE within a second", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const one = await arrive(world, "One", "Work");
    const two = await arrive(world, "Two");
    await mail.say("SELECT Labels/Work");
    await mail.say("FETCH 1:* (UID FLAGS)");
    mail.write("i IDLE\r\n");
    expect(await mail.line()).toBe("+ idling");
    const told = async (): Promise<string | undefined> => {
      await app.advance(100);
      return mail.line();
    };
    await patch(world, two, { addLabels: ["Work"] });
    expect(await told()).toBe("* 2 EXISTS");
    await patch(world, one, { unread: false });
    expect(await told()).toBe("* 1 FETCH (FLAGS (\\Seen Work) UID 1)");
    await patch(world, one, { folder: "trash" });
    expect(await told()).toBe("* 1 EXPUNGE");
    await patch(world, two, { labels: [] });
    expect(await told()).toBe("* 1 EXPUNGE");
    // Of what does not concern it, nothing is told.
    await arrive(world, "Three");
    await arrive(world, "Four", "Work");
    expect(await told()).toBe("* 1 EXISTS");
  });

  test("an app that returns is told what changed by API and apps meanwhile, and no more", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const threads: string[] = [];
    for (const name of ["A", "B", "C", "D", "E"]) threads.push(await arrive(world, name, "Work"));
    const [a = "", b = "", c = ""] = threads;
    await mail.say("ENABLE QRESYNC");
    const opened = await mail.say("SELECT Labels/Work");
    const modseq = Number(/HIGHESTMODSEQ (\d+)/.exec(opened.untagged.join())?.[1]);
    await mail.say("UNSELECT");
    const other = await world.client();
    await patch(world, a, { folder: "trash" });
    await patch(world, b, { starred: true });
    await patch(world, c, { removeLabels: ["Work"] });
    await patch(world, c, { addLabels: ["Work"] });
    await other.say("SELECT INBOX");
    const [d] = await uidsOf(other, "D");
    await other.say(`UID STORE ${d} +FLAGS (\\Answered)`);
    await arrive(world, "F", "Work");
    await arrive(world, "G");
    const again = await mail.say(`SELECT Labels/Work (QRESYNC (${validityOf(opened)} ${modseq}))`);
    expect(again.untagged).toContain("* VANISHED (EARLIER) 1");
    const fetched = again.untagged.filter((line) => line.includes("FETCH"));
    expect(fetched.map((line) => /UID (\d+)/.exec(line)?.[1])).toEqual(["2", "3", "4", "6"]);
    expect(again.untagged).toContain("* 5 EXISTS");
    const since = await mail.say(`UID FETCH 1:* (FLAGS) (CHANGEDSINCE ${modseq} VANISHED)`);
    expect(since.untagged[0]).toBe("* VANISHED (EARLIER) 1");
  });

  test("what was forgotten of that is told by what is missing", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const threads: string[] = [];
    for (const name of ["A", "B", "C"]) threads.push(await arrive(world, name, "Work"));
    await mail.say("ENABLE QRESYNC");
    const opened = await mail.say("SELECT Labels/Work");
    const modseq = Number(/HIGHESTMODSEQ (\d+)/.exec(opened.untagged.join())?.[1]);
    await mail.say("UNSELECT");
    for (const id of threads.slice(0, 2)) await patch(world, id, { folder: "trash" });
    // The folders have forgotten what left them, too.
    app.core.store.db.$client.run("UPDATE imap_folders SET vanished_through = modseq");
    app.core.store.db.$client.run("DELETE FROM imap_vanished");
    expect(await namesIn(mail, "Labels/Work")).toEqual(["C"]);
    app.core.store.db.$client.run("UPDATE imap_labels SET vanished_through = modseq");
    app.core.store.db.$client.run("DELETE FROM imap_label_vanished");
    const again = await mail.say(`SELECT Labels/Work (QRESYNC (${validityOf(opened)} ${modseq}))`);
    expect(again.untagged).toContain("* VANISHED (EARLIER) 1:2");
  });
});

describe("what apps do", () => {
  test("COPY and MOVE give the label; MOVE archives", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One");
    const two = await arrive(world, "Two");
    await arrive(world, "Mark", "Work");
    await mail.say("SELECT INBOX");
    const [first] = await uidsOf(mail, "One");
    const [second] = await uidsOf(mail, "Two");
    expect(copied(await mail.say(`UID COPY ${first} Labels/Work`))).toEqual([[first as number, 2]]);
    expect(mail.uids).toHaveLength(3);
    const moved = await mail.say(`UID MOVE ${second} Labels/Work`);
    expect(copied(moved)).toEqual([[second as number, 3]]);
    expect(moved.untagged.some((line) => line.includes("EXPUNGE"))).toBe(true);
    expect(await subjects(mail, "Labels/Work")).toEqual([
      [1, "Mark"],
      [2, "One"],
      [3, "Two"],
    ]);
    expect(await world.mail(mail)).toEqual({ INBOX: ["Mark", "One"], Archive: ["Two"] });
    expect([await labelsOf(world, one), await labelsOf(world, two)]).toEqual([["Work"], ["Work"]]);
    expect(code(await mail.say("UID COPY 1 Labels/Other"))).toBe("NO TRYCREATE");
  });

  test("what cannot leave its folder has another UID there, so that no app misses it", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await arrive(world, "Mark", "Work");
    await patch(world, await arrive(world, "One"), { folder: "archive" });
    const content = { from: world.alice, to: "bob@remote.example", subject: "Draft", text: "one" };
    await world.app.api.post("/api/ext/v1/drafts", content);
    for (const [folder, subject] of [
      ["Archive", "One"],
      ["Drafts", "Draft"],
    ]) {
      await mail.say(`SELECT ${folder}`);
      const moved = await mail.say("UID MOVE 1 Labels/Work");
      expect(copied(moved)).toHaveLength(1);
      expect(moved.untagged).toContain("* 1 EXPUNGE");
      expect(moved.untagged).toContain("* 1 EXISTS");
      expect(await subjects(mail, folder as string)).toEqual([[2, subject as string]]);
    }
    expect(await namesIn(mail, "Labels/Work")).toEqual(["Draft", "Mark", "One"]);
  });

  test("COPYUID ascends, whatever the order of arrival; a COPY that fails midway takes back what it did", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const threads = (await world.arriveAll(numbered(105))).map(({ threadId }) => threadId);
    await mail.say("CREATE Labels/Work");
    await patch(world, threads[3] as string, { labels: ["Work", "Other"] });
    await patch(world, threads[4] as string, { folder: "trash" });
    // In INBOX they are now in another order than they came in.
    await patch(world, threads[0] as string, { folder: "archive" });
    await patch(world, threads[0] as string, { folder: "inbox" });
    const { $client } = app.core.store.db;
    $client.run(
      `CREATE TRIGGER fails BEFORE INSERT ON thread_labels
       WHEN new.thread_seq = (SELECT seq FROM threads WHERE id = '${threads[103]}') BEGIN SELECT RAISE(ABORT, 'no'); END`,
    );
    await mail.say("SELECT INBOX");
    const failed = await mail.say("COPY 1:* Labels/Work");
    expect([failed.status, copied(failed)]).toEqual(["NO", []]);
    $client.run("DROP TRIGGER fails");
    expect(await namesIn(mail, "Labels/Work")).toEqual(["Mail 3"]);
    expect(await labelsOf(world, threads[3] as string)).toEqual(["Other", "Work"]);
    await mail.say("SELECT Trash");
    await mail.say("COPY 1 Labels/Work");
    await mail.say("SELECT INBOX");
    await patch(world, threads[3] as string, { labels: [] });
    const to = copied(await mail.say("COPY 1:* Labels/Work")).map(([, uid]) => uid);
    expect(to).toHaveLength(104);
    expect(to).toEqual(to.toSorted((a, b) => a - b));
  });

  test("a COPY that would give a conversation too many labels gives none", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const some = Array.from({ length: 100 }, (_, i) => `Some ${i}`);
    const first = await arrive(world, "First");
    await world.arriveAll(numbered(100));
    const last = await arrive(world, "Last");
    for (let i = 0; i < 100; i += 20) await patch(world, last, { addLabels: some.slice(i, i + 20) });
    await mail.say("CREATE Labels/Work");
    await mail.say("SELECT INBOX");
    for (const verb of ["COPY", "MOVE"]) expect(code(await mail.say(`${verb} 1:* Labels/Work`))).toBe("NO LIMIT");
    expect(await labelsOf(world, first)).toEqual([]);
    expect(code(await mail.say('COPY 102 "Labels/Some 1"'))).toBe("OK COPYUID");
  });

  test("from Trash and Junk, both bring it back", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await arrive(world, "Mark", "Work");
    for (const [command, folder] of [
      ["COPY", "trash"],
      ["MOVE", "spam"],
    ] as const) {
      await patch(world, await arrive(world, command), { folder });
      await mail.say(`SELECT ${folder === "trash" ? "Trash" : "Junk"}`);
      expect(copied(await mail.say(`${command} 1 Labels/Work`))).toHaveLength(1);
    }
    expect(await namesIn(mail, "Labels/Work")).toEqual(["COPY", "MOVE", "Mark"]);
    expect(await world.mail(mail)).toEqual({ INBOX: ["Mark"], Archive: ["COPY", "MOVE"] });
  });

  test("an app that copies to a label and then deletes has moved it, and nothing is in Trash", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await arrive(world, "Mark", "Work");
    await arrive(world, "One");
    await arrive(world, "Two");
    await mail.say("SELECT INBOX");
    const [one] = await uidsOf(mail, "One");
    const [two] = await uidsOf(mail, "Two");
    await mail.say(`UID COPY ${one} Labels/Work`);
    await mail.say(`UID STORE ${one},${two} +FLAGS.SILENT (\\Deleted)`);
    await mail.say("EXPUNGE");
    expect(await world.mail(mail)).toEqual({ INBOX: ["Mark"], Archive: ["One"], Trash: ["Two"] });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["Mark", "One"]);
  });

  test("so has one that opened other mailboxes between, or appends the octets that it fetched", async () => {
    const world = await labelled();
    const { own: mail } = world;
    for (const name of ["Copied", "Appended", "Gone"]) await arrive(world, name);
    await mail.say("CREATE Labels/Work");
    await mail.say("SELECT INBOX");
    await mail.say("UID COPY 1 Labels/Work");
    const [line = ""] = (await mail.say("UID FETCH 2 (BODY.PEEK[])")).untagged;
    const octets = line.slice(line.indexOf("}\r\n") + 3, -1);
    const append = async (name: string) =>
      expect((await mail.say(`APPEND ${name} {${octets.length}+}\r\n${octets}`)).text).toContain("[APPENDUID");
    await append("Labels/Work");
    await mail.say("SELECT Sent");
    await mail.say("SELECT INBOX");
    await mail.say("UID STORE 1:3 +FLAGS.SILENT (\\Deleted)");
    await mail.say("EXPUNGE");
    expect(await world.mail(mail)).toEqual({ Archive: ["Appended", "Copied"], Trash: ["Gone"] });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["Appended", "Copied"]);
    // What it brought back from Trash, it deletes like any other message.
    await append("Trash");
    await append("Labels/Work");
    await mail.say("SELECT Archive");
    await mail.say(`UID STORE ${await uidsOf(mail, "Appended")} +FLAGS.SILENT (\\Deleted)`);
    await mail.say("EXPUNGE");
    expect(await world.mail(mail)).toEqual({ Archive: ["Copied"], Trash: ["Appended", "Gone"] });
  });

  test("MOVE from a label takes it away; COPY does not; to Trash and Junk the others keep it", async () => {
    const world = await labelled();
    const { own: mail } = world;
    for (const name of ["A", "B", "C", "D"]) await arrive(world, name, "Work");
    await mail.say("CREATE Labels/Other");
    await mail.say("SELECT Labels/Work");
    expect(copied(await mail.say("UID MOVE 1 Labels/Other"))).toEqual([[1, 1]]);
    expect(copied(await mail.say("UID COPY 2 Labels/Other"))).toEqual([[2, 2]]);
    const moved = await mail.say("UID MOVE 3 Archive");
    expect(copied(moved)).toEqual([[3, 1]]);
    expect(copied(await mail.say("UID COPY 4 Archive"))).toEqual([[4, 2]]);
    expect(await namesIn(mail, "Labels/Work")).toEqual(["B", "D"]);
    expect(await namesIn(mail, "Labels/Other")).toEqual(["A", "B"]);
    expect(await world.mail(mail)).toEqual({ INBOX: ["A", "B"], Archive: ["C", "D"] });
    await mail.say("SELECT Labels/Work");
    expect(code(await mail.say("UID COPY 2 Labels/Work"))).toBe("NO CANNOT");
    expect(code(await mail.say("UID MOVE 2 Drafts"))).toBe("NO CANNOT");
    const { threadId } = await world.arrive({ subject: "Long", messageId: "<long@x>" });
    await world.arrive({ subject: "Re: Long", messageId: "<long2@x>", headers: ["In-Reply-To: <long@x>"] });
    await patch(world, threadId, { labels: ["Work"] });
    await mail.say("NOOP");
    const [long] = await uidsOf(mail, "Re: Long");
    await mail.say(`UID MOVE ${long} Trash`);
    expect(await namesIn(mail, "Labels/Work")).toEqual(["B", "D", "Long"]);
    expect(await labelsOf(world, threadId)).toEqual(["Work"]);
  });

  test("MOVE from a label that ends meanwhile stops, and archives nothing", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await world.arriveAll(numbered(101));
    for (const name of ["Work", "Other"]) await mail.say(`CREATE Labels/${name}`);
    await mail.say("SELECT INBOX");
    await mail.say("COPY 1:* Labels/Work");
    await mail.say("SELECT Labels/Work");
    const other = await world.client();
    const moving = mail.say("MOVE 1:* Labels/Other");
    expect((await other.say("DELETE Labels/Work")).status).toBe("OK");
    const { status, text } = await moving;
    expect((await other.say("STATUS INBOX (MESSAGES)")).untagged.join()).toContain("MESSAGES 101");
    expect([status, text]).toEqual(["NO", "[NONEXISTENT] The label is gone"]);
  });

  test("EXPUNGE takes the label from the conversation, and nothing is deleted or marked elsewhere", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work", "Other");
    await arrive(world, "Two", "Work");
    await mail.say("SELECT Labels/Work");
    expect((await mail.say("STORE 1 +FLAGS (\\Deleted)")).untagged.join()).toContain("\\Deleted");
    expect((await mail.say("STATUS Labels/Work (DELETED DELETED-STORAGE)")).untagged.join()).toContain(
      "DELETED 1 DELETED-STORAGE 0",
    );
    const other = await world.client();
    await other.say("SELECT INBOX");
    expect((await other.say("FETCH 1 (FLAGS)")).untagged.join()).not.toContain("Deleted");
    await other.say("EXPUNGE");
    expect((await mail.say("UID EXPUNGE 2")).untagged).toEqual([]);
    expect((await mail.say("EXPUNGE")).untagged).toEqual(["* 1 EXPUNGE"]);
    expect(await labelsOf(world, one)).toEqual(["Other"]);
    expect(await world.mail(mail)).toEqual({ INBOX: ["One", "Two"] });
    await mail.say("SELECT Labels/Work");
    await mail.say("STORE 1 +FLAGS (\\Deleted)");
    await mail.say("STORE 1 -FLAGS (\\Deleted)");
    await mail.say("STORE 1 +FLAGS (\\Deleted)");
    await mail.say("CLOSE");
    // A label that no conversation has is gone.
    expect(await labelNames(mail)).toEqual(["Labels/Other"]);
  });

  test("APPEND archives with the label; what is there already stays", async () => {
    const world = await labelled();
    const { own: mail } = world;
    await mail.say("CREATE Labels/Work");
    const append = (text: string, flags = "", name = "Labels/Work"): Promise<Reply> =>
      mail.say(`APPEND ${name} (${flags}) {${text.length}+}\r\n${text}`);
    const appended = await append("Subject: New\r\nMessage-ID: <new@x>\r\n\r\nHello\r\n", "\\Seen Later");
    const validity = validityOf(await mail.say("SELECT Labels/Work"));
    expect(appended.text).toContain(`[APPENDUID ${validity} 1]`);
    const draft = await append("Subject: Draft\r\nTo: bob@remote.example\r\n\r\nHello\r\n", "\\Draft");
    expect(draft.text).toContain("[APPENDUID");
    const there = "Subject: There\r\nMessage-ID: <there@x>\r\n\r\nHello\r\n";
    await append(there, "", "INBOX");
    expect((await append(there)).text).toContain("[APPENDUID");
    expect(await world.mail(mail)).toEqual({ INBOX: ["There"], Archive: ["New"], Drafts: ["Draft"] });
    expect(await namesIn(mail, "Labels/Work")).toEqual(["Draft", "New", "There"]);
  });

  test("from one mailbox into a label of another, it is filed there with the label", async () => {
    const world = await labelled();
    const ben = world.member("Ben", "full");
    want(world, true, ben.userId);
    const his = await world.client(ben);
    await arrive(world, "One", "Work");
    await arrive(world, "Two", "Work");
    await his.say("CREATE Labels/Mine");
    const prefix = `Shared/${world.alice}`;
    await his.say(`SELECT ${prefix}/Labels/Work`);
    expect(copied(await his.say("UID COPY 1 Labels/Mine"))).toEqual([[1, 1]]);
    expect(copied(await his.say("UID MOVE 2 Labels/Mine"))).toEqual([[2, 2]]);
    expect(await world.mail(his)).toEqual({ Archive: ["One", "Two"] });
    expect(await namesIn(his, "Labels/Mine")).toEqual(["One", "Two"]);
    expect(await namesIn(his, "Labels/Work")).toEqual(["One", "Two"]);
    expect(await world.mail(his, `${prefix}/`)).toEqual({ [`${prefix}/INBOX`]: ["One"] });
    expect(code(await his.say(`RENAME Labels/Mine ${prefix}/Labels/Mine`))).toBe("NO CANNOT");
  });
});

describe("CREATE, DELETE and RENAME", () => {
  test("CREATE makes a label that stays empty until it is used, or deleted", async () => {
    const world = await labelled();
    const { app } = world;
    let mail = world.own;
    const created = await mail.say("CREATE Labels/Work/New/");
    expect(created.text).toMatch(/^\[MAILBOXID \(mbx_\w+\)\]/);
    expect(await labelNames(mail)).toEqual(["Labels/Work", "Labels/Work/New"]);
    expect(await namesIn(mail, "Labels/Work/New")).toEqual([]);
    // No conversation has it.
    expect((await app.api.get<{ labels: unknown[] }>("/api/ext/v1/labels")).body.labels).toEqual([]);
    for (const [name, answer] of [
      ["Labels", "NO ALREADYEXISTS"],
      ["Labels/work/NEW", "NO ALREADYEXISTS"],
      ["Elsewhere", "NO CANNOT"],
      ["INBOX/Below", "NO CANNOT"],
      ["Labels//a", "NO CANNOT"],
      ['"Labels/a "', "NO CANNOT"],
      [`Labels/${"a".repeat(61)}`, "NO LIMIT"],
    ]) {
      expect([name, code(await mail.say(`CREATE ${name}`))]).toEqual([name as string, answer as string]);
    }
    await app.advance(3 * 3_600_000);
    mail = await world.client();
    expect(lists(await mail.say('LIST "" Labels/*'))).toEqual([
      '(\\Noselect \\HasChildren) "Labels/Work"',
      '(\\HasNoChildren \\Subscribed) "Labels/Work/New"',
    ]);
    expect(await mail.say("CREATE Labels/Work")).toMatchObject({ status: "OK" });
    expect(await mail.say("DELETE Labels/Work")).toMatchObject({ status: "OK" });
    expect(await mail.say("DELETE Labels/Work/New")).toMatchObject({ status: "OK" });
    expect(await labelNames(mail)).toEqual([]);
    expect(code(await mail.say("DELETE Labels/Work/New"))).toBe("NO NONEXISTENT");
    expect(code(await mail.say("DELETE Labels"))).toBe("NO CANNOT");
    expect(code(await mail.say("DELETE INBOX"))).toBe("NO CANNOT");
  });

  test("a label that is made anew has another UIDVALIDITY, unlike every other", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const seen = new Set([validityOf(await mail.say("SELECT INBOX"))]);
    for (let i = 0; i < 3; i++) {
      const threadId = await arrive(world, `Mail ${i}`, "Work");
      await arrive(world, `Beside ${i}`, `Label ${i}`);
      for (const name of ["Work", `"Labels/Label ${i}"`]) {
        seen.add(validityOf(await mail.say(`SELECT ${name.startsWith('"') ? name : `Labels/${name}`}`)));
      }
      if (i === 0) await mail.say("DELETE Labels/Work");
      else if (i === 1) expect((await world.app.api.delete("/api/ext/v1/labels/Work")).status).toBe(200);
      expect(await labelsOf(world, threadId)).toEqual(i < 2 ? [] : ["Work"]);
    }
    expect(seen.size).toBe(7);
  });

  test("after a restore, UIDs begin anew", async () => {
    const { app, own: mail, ...world } = await labelled();
    await arrive({ app, ...world }, "One", "Work");
    const before = validityOf(await mail.say("SELECT Labels/Work"));
    app.core.store.transact((tx) => renewUidValidity(tx, app.runtime.now()));
    expect(validityOf(await mail.say("SELECT Labels/Work"))).toBeGreaterThan(before);
  });

  test("DELETE takes the label from its conversations, and those below stay", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work", "Work/Below");
    await mail.say("SELECT Labels/Work");
    expect(await mail.say("DELETE Labels/Work")).toMatchObject({ status: "OK" });
    expect(code(await mail.say("FETCH 1 (UID)"))).toBe("NO CLIENTBUG");
    expect(await labelsOf(world, one)).toEqual(["Work/Below"]);
    expect(code(await mail.say("DELETE Labels/Work"))).toBe("NO HASCHILDREN");
    expect(await world.mail(mail)).toEqual({ INBOX: ["One"] });
  });

  test("RENAME renames the label and those below it; UIDs stay", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work", "Work/Below");
    await arrive(world, "Two", "Work");
    await mail.say("CREATE Labels/Work/Empty");
    await mail.say("CREATE Labels/Taken");
    const before = await mail.say("SELECT Labels/Work");
    const id = /MAILBOXID \S+/.exec(before.untagged.join())?.[0];
    for (const [to, answer] of [
      ["Labels/Taken", "NO ALREADYEXISTS"],
      ["Labels", "NO CANNOT"],
      ["Archive/X", "NO CANNOT"],
      ["Labels//x", "NO CANNOT"],
    ]) {
      expect([to, code(await mail.say(`RENAME Labels/Work ${to}`))]).toEqual([to as string, answer as string]);
    }
    expect(code(await mail.say("RENAME Labels/None Labels/Other"))).toBe("NO NONEXISTENT");
    expect(code(await mail.say("RENAME INBOX Labels/Other"))).toBe("NO CANNOT");
    expect(await mail.say("RENAME Labels/Work Labels/Job")).toMatchObject({ status: "OK" });
    expect(await labelsOf(world, one)).toEqual(["Job", "Job/Below"]);
    expect(await labelNames(mail)).toEqual(["Labels/Job", "Labels/Job/Below", "Labels/Job/Empty", "Labels/Taken"]);
    // The mailbox that is open has the other name.
    expect(found(await mail.say("UID SEARCH ALL"))).toEqual([1, 2]);
    await mail.say("STORE 2 +FLAGS (\\Deleted)");
    await mail.say("EXPUNGE");
    const after = await mail.say("SELECT Labels/Job");
    expect([validityOf(after), /MAILBOXID \S+/.exec(after.untagged.join())?.[0]]).toEqual([validityOf(before), id]);
    expect(await subjects(mail, "Labels/Job")).toEqual([[1, "One"]]);
    expect(await mail.say("RENAME Labels/Job Labels/JOB")).toMatchObject({ status: "OK" });
    expect(await labelsOf(world, one)).toEqual(["JOB", "JOB/Below"]);
  });

  test("RENAME and DELETE know labels by the names that LIST gives, in any case", async () => {
    const world = await labelled();
    const { own: mail } = world;
    const one = await arrive(world, "One", "Work", "Work/Urgent", "x//y", "x//y/z");
    expect(await mail.say("RENAME Labels/work Labels/Job")).toMatchObject({ status: "OK" });
    expect(await labelsOf(world, one)).toEqual(["Job", "Job/Urgent", "x//y", "x//y/z"]);
    expect(await mail.say("RENAME Labels/JOB/urgent Labels/Later")).toMatchObject({ status: "OK" });
    expect(await mail.say("RENAME Labels/x/_/y Labels/z")).toMatchObject({ status: "OK" });
    expect(await labelsOf(world, one)).toEqual(["Job", "Later", "z", "z/z"]);
    await patch(world, one, { labels: ["x//y", "x//y/z"] });
    expect(await mail.say("DELETE Labels/x/_/y")).toMatchObject({ status: "OK" });
    expect(code(await mail.say("DELETE Labels/x/_/y"))).toBe("NO HASCHILDREN");
    expect(code(await mail.say("DELETE Labels/X"))).toBe("NO HASCHILDREN");
    expect(await mail.say("RENAME Labels/x/_ Labels/w")).toMatchObject({ status: "OK" });
    expect(await labelsOf(world, one)).toEqual(["w/y/z"]);
  });

  test("a label that is renamed to one in use has the mail of both", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    await arrive(world, "One", "A");
    await arrive(world, "Two", "B");
    expect(await subjects(mail, "Labels/A")).toEqual([[1, "One"]]);
    const idle = await world.client();
    await idle.say("SELECT Labels/A");
    expect((await app.api.patch("/api/ext/v1/labels/A", { name: "B" })).status).toBe(200);
    expect(await namesIn(mail, "Labels/B")).toEqual(["One", "Two"]);
    await idle.say("NOOP");
    await idle.say("FETCH 1:* (UID)");
    expect([idle.uids, idle.mistakes]).toEqual([[1, 3], []]);
  });

  test("what a key does is in its journal", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    await arrive(world, "One", "Work");
    await mail.say("CREATE Labels/New");
    await mail.say("RENAME Labels/New Labels/Other");
    await mail.say("RENAME Labels/Work Labels/Job");
    await mail.say("DELETE Labels/Other");
    await mail.say("SELECT INBOX");
    await mail.say("CREATE Labels/Third");
    await mail.say("COPY 1 Labels/Third");
    const entries = app.core.store.db.$client
      .query(
        "SELECT operation, changes FROM journal_entries WHERE face = 'imap' AND changes > 0 AND workspace_id = ? ORDER BY seq",
      )
      .all(app.owner.workspaceId);
    expect(entries).toEqual(
      ["createLabel", "renameLabel", "renameLabel", "deleteLabel", "createLabel", "copy"].map((operation) => ({
        operation,
        changes: 1,
      })),
    );
  });

  test("a mailbox shows a limited number of labels, and makes no more", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const { store } = app.core;
    store.db.$client.run(
      `INSERT INTO mailbox_labels (mailbox_id, label_key, label, threads)
       SELECT ?, printf('label %04d', value), printf('Label %04d', value), 1
       FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 1100) SELECT value FROM n)`,
      [app.owner.mailboxId],
    );
    expect(await labelNames(mail)).toHaveLength(1_000);
    expect(code(await mail.say("CREATE Labels/New"))).toBe("NO LIMIT");
    // It is there, all the same.
    expect(await mail.say('SELECT "Labels/Label 1100"')).toMatchObject({ status: "OK" });
  });
});

describe("what ends", () => {
  test("the setting ends sessions that have a label open, and LIST shows no labels", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    await arrive(world, "One", "Work");
    const idle = await world.client();
    await idle.say("SELECT Labels/Work");
    idle.write("i IDLE\r\n");
    expect(await idle.line()).toBe("+ idling");
    const other = await world.client();
    await other.say("SELECT Labels/Work");
    await mail.say("SELECT INBOX");
    want(world, false);
    await app.advance(100);
    expect(await idle.line()).toMatch(/^\* BYE Labels are no mailboxes/);
    expect((await other.say("FETCH 1 (FLAGS)")).status).toBe("BYE");
    expect(lists(await mail.say('LIST "" *'))).toHaveLength(6);
    want(world);
    expect(await subjects(mail, "Labels/Work")).toEqual([[1, "One"]]);
  });

  test("a label that is removed ends sessions that have it open", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    await arrive(world, "One", "Work");
    await mail.say("SELECT Labels/Work");
    await app.api.delete("/api/ext/v1/labels/Work");
    const { status, untagged } = await mail.say("NOOP");
    expect([status, untagged.at(-1)]).toEqual(["BYE", "* BYE The label is gone"]);
  });

  test("a label that no conversation has is gone within the hour, with all that was kept of it", async () => {
    const world = await labelled();
    const { own: mail, app } = world;
    const one = await arrive(world, "One", "Work");
    await mail.say("SELECT Labels/Work");
    await mail.say("UNSELECT");
    const { $client } = app.core.store.db;
    const label = $client
      .query<{ id: number }, [string]>("SELECT id FROM imap_labels WHERE mailbox_id = ? AND label_key = 'work'")
      .get(app.owner.mailboxId);
    const kept = () =>
      [
        "SELECT id FROM imap_labels WHERE id = ?",
        "SELECT label_id FROM imap_labelled WHERE label_id = ?",
        "SELECT label_id FROM imap_label_vanished WHERE label_id = ?",
      ].map((query) => $client.query(query).all(label?.id ?? 0).length);
    expect(kept()).toEqual([1, 1, 0]);
    await patch(world, one, { labels: [] });
    await app.advance(2 * 3_600_000);
    expect(kept()).toEqual([0, 0, 0]);
    // Nothing was lost but its number.
    await patch(world, one, { labels: ["Work"] });
    expect(await namesIn(await world.client(), "Labels/Work")).toEqual(["One"]);
  });
});

test("imapflow makes labels, files under them, and follows them", async () => {
  const world = await labelled();
  const { app } = world;
  const one = await arrive(world, "One");
  const flow = new ImapFlow({
    host: "127.0.0.1",
    port: Number(app.ready.imaps?.split(":")[1]),
    secure: true,
    tls: { rejectUnauthorized: false },
    auth: { user: world.alice, pass: app.owner.apiKey },
    logger: false,
    qresync: true,
  });
  await flow.connect();
  expect(await flow.mailboxCreate(["Labels", "Müll & mehr"])).toMatchObject({ created: true });
  expect((await flow.list()).map(({ path, flags }) => [path, flags.has("\\Noselect")])).toEqual(
    expect.arrayContaining([
      ["Labels", true],
      ["Labels/Müll & mehr", false],
    ]),
  );
  await flow.mailboxOpen("INBOX");
  const moved = await flow.messageMove("1", "Labels/Müll & mehr");
  expect(moved && [...(moved.uidMap ?? [])]).toEqual([[1, 1]]);
  expect(await labelsOf(world, one)).toEqual(["Müll & mehr"]);
  await flow.mailboxOpen("Labels/Müll & mehr");
  expect(await flow.status("Labels/Müll & mehr", { messages: true, unseen: true })).toMatchObject({
    messages: 1,
    unseen: 1,
  });
  const gone = new Promise((resolve) => flow.once("expunge", resolve));
  await patch(world, one, { labels: [] });
  await flow.noop();
  expect(await gone).toMatchObject({ path: "Labels/Müll & mehr" });
  expect(await flow.mailboxDelete("Labels/Müll & mehr")).toMatchObject({ path: "Labels/Müll & mehr" });
  await flow.logout();
});
