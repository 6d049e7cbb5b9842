/** `mailroom reindex`, as it is typed (contract: Commands): whatever is wrong with the index, it is as it was. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { letter } from "../harness/mail.ts";
import { files, mboxEntry } from "../transfer/rig.ts";
import { openTerminal, SETUP } from "./terminal.ts";

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

/** Every word of every message, where it stands. */
function entriesOf(data: string): unknown[] {
  using sqlite = open(data);
  sqlite.run("CREATE VIRTUAL TABLE temp.entries USING fts5vocab(main, message_index, instance)");
  return sqlite.query("SELECT doc, col, term, offset FROM temp.entries ORDER BY doc, col, offset, term").all();
}

async function mailbox() {
  const terminal = openTerminal({ interrupted: new Promise(() => {}) });
  await terminal.ask(...SETUP);
  const letters = [letter({ subject: "One" }), letter({ subject: "Two" }), WITH_FILE];
  const folder = files({ "m.mbox": letters.map(mboxEntry).join("") });
  await terminal.ask("import", "--mailbox", "ada@acme.test", join(folder, "m.mbox"));
  return { ...terminal, entries: entriesOf(terminal.data) };
}

const HARMS = {
  nothing: "SELECT 1",
  "a message missing": "DELETE FROM message_index WHERE rowid = (SELECT max(seq) FROM messages)",
  "other words": `DELETE FROM message_index WHERE rowid = (SELECT max(seq) FROM messages);
     INSERT INTO message_index (rowid, scope, subject) SELECT max(seq), 'x', 'other' FROM messages`,
  "an entry of no message": "INSERT INTO message_index (rowid, scope, subject) VALUES (99999999, 'x', 'stray')",
  "everything missing": "INSERT INTO message_index (message_index) VALUES ('delete-all')",
};

test("whatever is wrong, the index is as it was, also when nothing is", async () => {
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

test("damaged beyond change, it is emptied first, which is said", async () => {
  const { data, say, entries } = await mailbox();
  {
    using sqlite = open(data);
    sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  // In small letters the word is nowhere but in the index, where words that begin alike share their beginning.
  const path = join(data, "mailroom.db");
  const bytes = readFileSync(path);
  const at = bytes.indexOf("lophone");
  expect(at).toBeGreaterThan(0);
  bytes.fill(0xff, at - 20, at + 20);
  writeFileSync(path, bytes);
  const { exitCode, stdout, stderr } = await say("reindex", "--json");
  expect({ exitCode, stdout: JSON.parse(stdout) }).toEqual({ exitCode: 0, stdout: { messages: 3 } });
  expect(stderr).toContain("damaged");
  expect(entriesOf(data)).toEqual(entries);
}, 120_000);

test("interrupted, it says how far it is, and exits 1", async () => {
  const { data } = await mailbox();
  const { say } = openTerminal({ data });
  expect(await say("reindex")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/of 3 messages; run it again/),
  });
}, 120_000);

test("nothing is taken beside the options of all commands", async () => {
  expect((await openTerminal().say("reindex", "now")).exitCode).toBe(2);
});
