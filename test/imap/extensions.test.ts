/** Extensions of IMAP over a socket: RFC 5258, 6855, 7889, 8438, 8474, 9208. */
import { beforeAll, expect, test } from "bun:test";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

let app: Booted;
let mail: ImapAccount;
let shared: string;
beforeAll(async () => {
  app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  const { core } = app.opened;
  const { store } = core;
  const { workspaceId } = app.owner;
  shared = store.transact((tx) =>
    mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@example.test", name: "Team" }),
  );
  mail = await imapAccount(Number(app.ready.imaps?.split(":")[1]), "alice@example.test", app.owner.apiKey);
  for (const folder of ["INBOX", "Trash"]) {
    const text = `Subject: ${folder}\r\n\r\nHello\r\n`;
    expect((await mail.say(`APPEND ${folder} {${text.length}+}\r\n${text}`)).status).toBe("OK");
  }
});
const told = async (command: string): Promise<string[]> => {
  const { status, untagged } = await mail.say(command);
  expect(status).toBe("OK");
  return untagged;
};

test("what is announced: the limit of APPEND, and the extensions", async () => {
  const [capability = ""] = await told("CAPABILITY");
  for (const name of ["LIST-EXTENDED", "OBJECTID", "QUOTA", "QUOTA=RES-STORAGE", "STATUS=SIZE"]) {
    expect(capability.split(" ")).toContain(name);
  }
  const limit = app.core.options.get("smtp.maxMessageBytes");
  expect(capability.split(" ")).toContain(`APPENDLIMIT=${limit}`);
  expect(await told("STATUS INBOX (APPENDLIMIT)")).toEqual([`* STATUS "INBOX" (APPENDLIMIT ${limit})`]);
});

test("STATUS SIZE is what FETCH says; DELETED is counted, and what EXPUNGE frees of it", async () => {
  for (const folder of ["INBOX", "Trash"]) {
    await told(`SELECT ${folder}`);
    const [, size] = /RFC822.SIZE (\d+)/.exec((await told("FETCH 1 (RFC822.SIZE)")).join()) ?? [];
    expect(await told(`STATUS ${folder} (SIZE DELETED DELETED-STORAGE)`)).toEqual([
      `* STATUS "${folder}" (SIZE ${size} DELETED 0 DELETED-STORAGE 0)`,
    ]);
    await told("STORE 1 +FLAGS.SILENT (\\Deleted)");
    const [line = ""] = await told(`STATUS ${folder} (DELETED DELETED-STORAGE)`);
    expect(line).toMatch(folder === "Trash" ? /DELETED 1 DELETED-STORAGE [1-9]/ : /DELETED 1 DELETED-STORAGE 0\)/);
    await told("STORE 1 -FLAGS.SILENT (\\Deleted)");
  }
});

test("MAILBOXID stays with a folder, in SELECT and STATUS; EMAILID and THREADID are those of the API", async () => {
  const selected = await told("SELECT INBOX");
  const id = `${app.owner.mailboxId}_inbox`;
  expect(id).toMatch(/^[A-Za-z0-9_-]{1,255}$/);
  expect(selected).toContainEqual(expect.stringContaining(`[MAILBOXID (${id})]`));
  expect(await told("STATUS INBOX (MAILBOXID)")).toEqual([`* STATUS "INBOX" (MAILBOXID (${id}))`]);
  expect(await told("STATUS Shared/team@example.test/INBOX (MAILBOXID)")).toEqual([
    `* STATUS "Shared/team@example.test/INBOX" (MAILBOXID (${shared}_inbox))`,
  ]);
  const { threads } = (await app.api.get<{ threads: { id: string }[] }>("/threads")).body;
  const [line = ""] = await told("FETCH 1 (EMAILID THREADID)");
  const [, email, thread] = /EMAILID \(([^)]+)\) THREADID \(([^)]+)\)/.exec(line) ?? [];
  expect(threads.map((one) => one.id)).toContain(thread as string);
  expect((await app.api.get(`/messages/${email}`)).status).toBe(200);
  expect(await told(`SEARCH EMAILID ${email}`)).toEqual(["* SEARCH 1"]);
  expect(await told(`SEARCH THREADID ${thread}`)).toEqual(["* SEARCH 1"]);
  expect(await told("SEARCH EMAILID msg_none")).toEqual(["* SEARCH"]);
});

test("QUOTA tells used and most in units of 1024, for each mailbox in reach", async () => {
  const { store } = app.core;
  store.transact((tx) => mailboxAdmin.setQuota(tx, shared, 10 * 1024 + 5));
  expect(await told("GETQUOTAROOT Shared/team@example.test/Sent")).toEqual([
    '* QUOTAROOT "Shared/team@example.test/Sent" "team@example.test"',
    '* QUOTA "team@example.test" (STORAGE 0 10)',
  ]);
  const [line = ""] = await told('GETQUOTA "alice@example.test"');
  expect(line).toMatch(/^\* QUOTA "alice@example\.test" \(STORAGE [1-9]\d* \d+\)$/);
  expect((await mail.say('GETQUOTA "bob@example.test"')).text).toStartWith("[NONEXISTENT]");
  expect((await mail.say("GETQUOTAROOT Nowhere")).text).toStartWith("[NONEXISTENT]");
  expect((await mail.say('SETQUOTA "alice@example.test" (STORAGE 1)')).status).toBe("BAD");
});

test("LIST-EXTENDED: what is subscribed, and who has such children", async () => {
  const names = async (command: string) =>
    (await told(command)).map((line) => line.replace(/^\* LIST \([^)]*\) "\/" /, ""));
  expect(await names('LIST (SUBSCRIBED) "" "%"')).not.toContain('"Shared"');
  expect(await names('LIST "" "%"')).toContain('"Shared"');
  expect(await names('LIST (SUBSCRIBED RECURSIVEMATCH) "" "%"')).toContain('"Shared" ("CHILDINFO" ("SUBSCRIBED"))');
  expect(await names('LIST (SUBSCRIBED RECURSIVEMATCH) "" "*"')).not.toContainEqual(
    expect.stringContaining("CHILDINFO"),
  );
  expect(await names('LIST (SPECIAL-USE REMOTE) "" "%" RETURN (CHILDREN SPECIAL-USE)')).toEqual(
    ["Archive", "Drafts", "Junk", "Sent", "Trash"].map((name) => `"${name}"`),
  );
  expect(await told('LIST "" "INBOX" RETURN (SUBSCRIBED STATUS (MESSAGES))')).toEqual([
    '* LIST (\\HasNoChildren \\Subscribed) "/" "INBOX"',
    '* STATUS "INBOX" (MESSAGES 1)',
  ]);
  for (const bad of [
    'LIST (RECURSIVEMATCH) "" "%"',
    'LIST (RECURSIVEMATCH REMOTE) "" "%"',
    'LIST (OTHER) "" "%"',
    'LIST "" "%" RETURN (OTHER)',
  ]) {
    expect((await mail.say(bad)).status).toBe("BAD");
  }
});

test("IMAP4rev2: ESEARCH by itself, names in UTF-8, no RECENT, and LIST in SELECT", async () => {
  const { core } = app.opened;
  const { store } = core;
  const { workspaceId } = app.owner;
  const address = "grün@example.test";
  store.transact((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address, name: "Grün" }));
  const rev2 = await imapAccount(Number(app.ready.imaps?.split(":")[1]), "alice@example.test", app.owner.apiKey);
  const say = async (command: string) => (await rev2.say(command)).untagged;
  const encoded = '"Shared/gr&APw-n@example.test/INBOX"';
  expect((await say('LIST "" "Shared/gr*/INBOX"')).join()).toContain(encoded);
  expect((await rev2.say(`EXAMINE ${encoded}`)).status).toBe("OK");
  expect(await say("SEARCH ALL")).toEqual(["* SEARCH"]);
  expect((await say("SELECT INBOX")).join()).not.toContain("* LIST");
  expect((await say("CAPABILITY")).join()).toContain(" IMAP4rev2 ");
  expect(await say("ENABLE IMAP4rev2 UNKNOWN")).toEqual(["* ENABLED IMAP4rev2"]);
  const utf8 = Buffer.from(`Shared/${address}/INBOX`).toString("latin1");
  expect((await say('LIST "" "Shared/gr*/INBOX"')).join()).toContain(`"${utf8}"`);
  expect((await rev2.say(`STATUS "${utf8}" (MESSAGES)`)).untagged).toEqual([`* STATUS "${utf8}" (MESSAGES 0)`]);
  const selected = await say("SELECT INBOX");
  expect(selected).toContain('* LIST (\\HasNoChildren \\Subscribed) "/" "INBOX"');
  expect(selected.join()).not.toMatch(/RECENT|UNSEEN/);
  expect((await say("SEARCH ALL"))[0]).toMatch(/^\* ESEARCH \(TAG "[^"]+"\) ALL 1$/);
  expect((await say("UID SEARCH SUBJECT nothing"))[0]).toMatch(/^\* ESEARCH \(TAG "[^"]+"\) UID$/);
  rev2.end();
});

test("UTF8=ACCEPT: names and headers in UTF-8, and no charset of a search", async () => {
  const { core } = app.opened;
  const { store } = core;
  const { workspaceId } = app.owner;
  const latin1 = (text: string): string => Buffer.from(text).toString("latin1");
  store.transact((tx) =>
    mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "groß@example.test", name: "Groß" }),
  );
  const utf8 = await imapAccount(Number(app.ready.imaps?.split(":")[1]), "alice@example.test", app.owner.apiKey);
  const say = async (command: string) => (await utf8.say(command)).untagged;
  const name = latin1('"Shared/groß@example.test/INBOX"');
  expect((await say("CAPABILITY")).join()).toContain(" UTF8=ACCEPT ");
  expect((await say('LIST "" "Shared/gro*/INBOX"')).join()).not.toContain(name);
  expect(await say("ENABLE UTF8=ACCEPT")).toEqual(["* ENABLED UTF8=ACCEPT"]);
  expect((await say('LIST "" "Shared/gro*/INBOX"')).join()).toContain(name);
  const text = latin1("From: Zoë <zoë@example.test>\r\nSubject: Grüße\r\n\r\nHi\r\n");
  expect((await utf8.say(`APPEND ${name} UTF8 (~{${text.length}+}\r\n${text})`)).text).toContain("APPENDUID");
  expect((await utf8.say(`APPEND ${name} UTF8 (~{${text.length}+}\r\n${text}`)).status).toBe("BAD");
  await say(`SELECT ${name}`);
  expect(await say(latin1('SEARCH SUBJECT "grüße" FROM "zoë@"'))).toEqual(["* SEARCH 1"]);
  for (const bad of ["SEARCH CHARSET UTF-8 ALL", 'SEARCH SUBJECT "Gr\xfc\xdfe"', 'STATUS "\xc3" (MESSAGES)']) {
    expect([bad, (await utf8.say(bad)).status]).toEqual([bad, "BAD"]);
  }
  utf8.end();
});

test("a search is saved and used as $, without what vanished", async () => {
  await told("SELECT INBOX");
  for (const subject of ["One", "Two"]) {
    const text = `Subject: ${subject}\r\n\r\nHello\r\n`;
    await told(`APPEND INBOX {${text.length}+}\r\n${text}`);
  }
  await told("NOOP");
  expect(await told("SEARCH $")).toEqual(["* SEARCH"]);
  expect(await told("SEARCH RETURN (SAVE) NOT SUBJECT One")).toEqual([]);
  expect(await told("SEARCH $")).toEqual(["* SEARCH 1 3"]);
  expect(await told("SEARCH NOT $")).toEqual(["* SEARCH 2"]);
  expect((await told("FETCH $ (UID)")).map((line) => /^\* (\d+)/.exec(line)?.[1])).toEqual(["1", "3"]);
  expect(await told("SEARCH RETURN (SAVE MIN) ALL")).toEqual([expect.stringMatching(/ MIN 1$/)]);
  expect(await told("SEARCH $")).toEqual(["* SEARCH 1"]);
  await told("SEARCH RETURN (SAVE COUNT) ALL");
  await told("UID STORE $ +FLAGS.SILENT (\\Flagged)");
  expect(await told("SEARCH FLAGGED")).toEqual(["* SEARCH 1 2 3"]);
  await told("MOVE 2 Archive");
  expect(await told("SEARCH $")).toEqual(["* SEARCH 1 2"]);
  expect((await mail.say("SEARCH RETURN (SAVE) NONSENSE")).status).toBe("BAD");
  expect(await told("SEARCH $")).toEqual(["* SEARCH 1 2"]);
  for (const [refused, left] of [
    ["SEARCH CHARSET KOI8-R ALL", " 1 2"],
    ["SEARCH RETURN (SAVE) CHARSET KOI8-R ALL", ""],
  ]) {
    expect((await mail.say(refused as string)).status).toBe("NO");
    expect(await told("SEARCH $")).toEqual([`* SEARCH${left}`]);
  }
  await told("SEARCH RETURN (SAVE) ALL");
  await told("SELECT INBOX");
  expect(await told("SEARCH $")).toEqual(["* SEARCH"]);
});
