/** A database that an older version wrote is brought up to date, and keeps what it knew. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import { senderVerdicts } from "../../src/store/schema.ts";
import { openStore } from "../../src/store/store.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";

test("what was learned of senders before spoofed ones were told apart is about the senders themselves", () => {
  const folder = temporaryFolder();
  const old = new Database(join(folder, "mailroom.db"), { create: true });
  for (const sql of MIGRATIONS.slice(0, 2)) old.exec(sql);
  old.exec(`PRAGMA user_version = 2;
    INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
    INSERT INTO mailboxes (id, workspace_id, address, name, created_at) VALUES ('mbx_1', 'wsp_1', 'a@b.example', 'A', 1);
    INSERT INTO sender_verdicts VALUES ('mbx_1', 'bad@x.example', 'spam', 2), ('mbx_1', 'good@x.example', 'forgiven', 3)`);
  old.close();
  const { db } = openStore({ folder, runtime: fakeRuntime() });
  expect(db.select().from(senderVerdicts).all()).toEqual([
    { mailboxId: "mbx_1", sender: "bad@x.example", spoofed: false, verdict: "spam", trainedAt: 2 },
    { mailboxId: "mbx_1", sender: "good@x.example", spoofed: false, verdict: "forgiven", trainedAt: 3 },
  ]);
});
