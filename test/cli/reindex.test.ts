/** `mailroom reindex`, as it is typed (rules: Commands, Reindex): whatever is wrong with the index, it is as it was. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { entriesOf as entriesIn, takeBackToSchema14 } from "../harness/data/schema14.ts";
import { letter } from "../harness/mail/mail.ts";
import { openSetUp, openTerminal } from "../harness/servers/terminal.ts";
import { files, mboxEntry } from "../harness/servers/transfer-rig.ts";

const WITH_FILE = `From: =?utf-8?q?Zo=C3=AB?= <zoe@b\u00fccher.example>
To: ada@acme.test
Cc: "Ben, of sales" <ben@acme.test>
Subject: =?utf-8?b?5pel5pys6Kqe?= report
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain; charset=utf-8

Stra\u00dfe, 東京 and the rest
--x
Content-Type: application/pdf; name="XYLOPHONE figures.pdf"
Content-Disposition: attachment; filename="XYLOPHONE figures.pdf"

%PDF
--x--
`;

const open = (data: string) => new Database(join(data, "mailroom.db"));

function entriesOf(data: string): unknown[] {
  using sqlite = open(data);
  return entriesIn(sqlite);
}

const backlogOf = (data: string): unknown[] => {
  using sqlite = open(data);
  return sqlite.query("SELECT messages FROM search_backlog").all();
};

async function mailbox() {
  const terminal = await openSetUp({ interrupted: new Promise(() => {}) });
  const letters = [letter({ subject: "One" }), letter({ subject: "Two" }), WITH_FILE];
  const folder = files({ "m.mbox": letters.map(mboxEntry).join("") });
  await terminal.ask("import", "--mailbox", "ada@acme.test", join(folder, "m.mbox"));
  return { ...terminal, entries: entriesOf(terminal.data) };
}

const HARMS = {
  nothing: "SELECT 1",
  "a message missing": "DELETE FROM message_index WHERE rowid = (SELECT max(id) FROM message_index_docsize)",
  "other words":
    "REPLACE INTO message_index (rowid, scope, subject) SELECT max(id), 'x', 'other' FROM message_index_docsize",
  "an entry of no message": "INSERT INTO message_index (rowid, scope, subject) VALUES (99999999, 'x', 'stray')",
  "everything missing": "INSERT INTO message_index (message_index) VALUES ('delete-all')",
};

test("mends every kind of damage, and changes nothing in a good index", async () => {
  const { data, ask, entries } = await mailbox();
  for (const [name, harm] of Object.entries(HARMS)) {
    {
      using sqlite = open(data);
      sqlite.run(harm);
    }
    expect([name, await ask("reindex")]).toEqual([name, { messages: 3 }]);
    expect([name, entriesOf(data)]).toEqual([name, entries]);
  }
}, 120_000);

test("after an upgrade it finishes the server's work", async () => {
  const { data, ask, say, entries } = await mailbox();
  takeBackToSchema14(join(data, "mailroom.db"));
  expect(await say("doctor")).toMatchObject({ stdout: expect.stringContaining("0 of 3 messages") });
  expect(backlogOf(data)).toEqual([{ messages: 3 }]);
  expect(await ask("reindex")).toEqual({ messages: 3 });
  expect([backlogOf(data), entriesOf(data)]).toEqual([[], entries]);
}, 120_000);

/** A mailbox whose index cannot be read. */
async function damagedMailbox() {
  const made = await mailbox();
  {
    using sqlite = open(made.data);
    sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  // In small letters the word is nowhere but in the index, where words that begin alike share their beginning.
  const path = join(made.data, "mailroom.db");
  const bytes = readFileSync(path);
  const at = bytes.indexOf("lophone");
  expect(at).toBeGreaterThan(0);
  bytes.fill(0xff, at - 20, at + 20);
  writeFileSync(path, bytes);
  return made;
}

test("an index too damaged to change is emptied first, with a message", async () => {
  const { data, say, entries } = await damagedMailbox();
  const { exitCode, stdout, stderr } = await say("reindex", "--json");
  expect({ exitCode, stdout: JSON.parse(stdout) }).toEqual({ exitCode: 0, stdout: { messages: 3 } });
  expect(stderr).toContain("damaged");
  expect([backlogOf(data), entriesOf(data)]).toEqual([[], entries]);
}, 120_000);

test("interrupted after emptying, it leaves the rest to the server", async () => {
  const { data } = await damagedMailbox();
  expect((await openTerminal({ data }).say("reindex")).exitCode).toBe(1);
  expect(backlogOf(data)).toEqual([{ messages: 3 }]);
}, 120_000);

test("interrupted, it prints its progress and exits with 1", async () => {
  const { data } = await mailbox();
  const { say } = openTerminal({ data });
  expect(await say("reindex")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/of 3 messages; run it again/),
  });
}, 120_000);

test("takes only the options of all commands", async () => {
  expect((await openTerminal().say("reindex", "now")).exitCode).toBe(2);
});
