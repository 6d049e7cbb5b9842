/** `mailroom restore`: onto an empty data folder only, with the outbound queue held. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { agree, filesOf, openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

async function backedUp() {
  const rig = await openBackupRig();
  await rig.add("first");
  mkdirSync(join(rig.data, "tls"));
  writeFileSync(join(rig.data, "tls/key.pem"), "key", { mode: 0o600 });
  const { id } = await rig.ask<{ id: string }>("backup", rig.folder);
  return { ...rig, id, elsewhere: openTerminal() };
}

const held = async (terminal: ReturnType<typeof openTerminal>) =>
  (await terminal.ask<{ recipient: string; state: string; reply: string | null }[]>("queue", "list"))
    .map(({ recipient, state, reply }) => ({ recipient, state, reply }))
    .sort((a, b) => b.recipient.localeCompare(a.recipient));

test("everything is back: people, keys, files, certificates; and only the owner can read it", async () => {
  const { data, folder, id, ask, elsewhere } = await backedUp();
  expect(await elsewhere.ask("restore", folder)).toMatchObject({
    id,
    blobs: 1,
    schema: MIGRATIONS.length,
    data: elsewhere.data,
    lacking: [],
    held: 1,
  });
  for (const line of [
    ["user", "list"],
    ["key", "list"],
    ["domain", "dns", "acme.test"],
  ]) {
    expect(await elsewhere.ask(...line)).toEqual(await ask(...line));
  }
  const but = (path: string) => !/^(mailroom\.db|backup\.json)/.test(path);
  const [before, after] = [filesOf(data), filesOf(elsewhere.data)];
  expect([...after].filter(([path]) => but(path))).toEqual([...before].filter(([path]) => but(path)));
  for (const path of after.keys()) expect([path, statSync(join(elsewhere.data, path)).mode & 0o077]).toEqual([path, 0]);
  expect(await elsewhere.ask("backup", join(folder, "../again"))).toMatchObject({ blobs: 1 });
});

test("the expiry of a mailbox is back", async () => {
  const { folder, within, ask, elsewhere } = await backedUp();
  const expires_at = Date.parse("2027-01-31T17:00:00Z");
  await within(({ db }) => void db.$client.query("UPDATE mailboxes SET expires_at = ?").run(expires_at));
  await ask("backup", folder);
  await ask("backup", "verify", folder);
  await elsewhere.ask("restore", folder);
  expect(await elsewhere.ask("mailbox", "list")).toMatchObject([{ expiresAt: "2027-01-31T17:00:00.000Z" }]);
});

test("queued mail is held with the reason, except to this server's own mailboxes; then it is released", async () => {
  const { folder, add, ask, elsewhere } = await backedUp();
  await add("local", "ada@acme.test");
  await ask("backup", folder);
  const said = await elsewhere.say("restore", folder);
  expect(said.stderr).toMatch(/^mailroom: kept back, since .*: mail to 1 recipients .* and 0 drafts/);
  const reply = "held when a backup was restored: it may have been sent before";
  const local = { recipient: "ada@acme.test", state: "waiting", reply: null };
  expect(await held(elsewhere)).toEqual([{ recipient: "dan@remote.example", state: "held", reply }, local]);
  expect(await elsewhere.ask("queue", "release")).toEqual({ released: 1 });
  expect(await held(elsewhere)).toEqual([{ recipient: "dan@remote.example", state: "waiting", reply }, local]);
  expect(await elsewhere.ask("queue", "release")).toEqual({ released: 0 });
});

test("mail to a domain that a workspace claims but did not verify is held, too", async () => {
  const { folder, within, ask, elsewhere } = await backedUp();
  const claim = (state: string) =>
    within(({ db }) => {
      db.$client.exec(`
        INSERT OR IGNORE INTO workspaces (id, name, created_at) VALUES ('wsp_2', 'Two', 0);
        INSERT OR REPLACE INTO domains (id, workspace_id, name, ownership_token, verified_at, created_at)
          VALUES ('dom_2', 'wsp_2', 'remote.example', 't', ${state}, 0)`);
    });
  await claim("NULL");
  await ask("backup", folder);
  await elsewhere.ask("restore", folder);
  expect(await held(elsewhere)).toMatchObject([{ recipient: "dan@remote.example", state: "held" }]);
  await claim("1");
  await ask("backup", folder);
  const verified = openTerminal();
  await verified.ask("restore", folder);
  expect(await held(verified)).toMatchObject([{ recipient: "dan@remote.example", state: "waiting" }]);
});

test("mail is numbered anew for IMAP, with or without --send-queue", async () => {
  const { folder, within, ask } = await backedUp();
  await within(({ db }) => {
    db.$client.exec(`INSERT INTO imap_folders (mailbox_id, folder, uid_validity, uid_next, modseq, vanished_through)
      SELECT id, 'inbox', 99000000000, 7, 8, 0 FROM mailboxes`);
  });
  await ask("backup", folder);
  for (const further of [[], ["--send-queue"]]) {
    const restored = openTerminal();
    await restored.ask("restore", folder, ...further);
    const sqlite = new Database(join(restored.data, "mailroom.db"));
    expect(sqlite.query("SELECT uid_validity, uid_next FROM imap_folders").get()).toEqual({
      uid_validity: 99000000001,
      uid_next: 7,
    });
    sqlite.close();
  }
});

test("a scheduled draft loses its time, and says why", async () => {
  const { folder, within, ask, elsewhere } = await backedUp();
  await within(({ db }) => {
    db.$client.exec(`
      INSERT INTO threads (id, mailbox_id, folder, unread, starred, last_message_at, has_attachments, message_count,
        next_ordinal, received_on, subject, subject_key, snippet, counterpart, participants)
        SELECT 'thr_1', id, 'drafts', 0, 0, 0, 0, 1, 1, '', '', '', '', '{"email":""}', '[]' FROM mailboxes;
      INSERT INTO messages (seq, id, thread_seq, mailbox_id, kind, folder, read, date, filed_at, "from", "to", cc, bcc,
        reply_to, subject, snippet, size, fingerprint, has_attachments)
        SELECT seq * 65536, 'msg_1', seq, mailbox_id, 'draft', 'drafts', 1, 0, 0, '{"email":""}', '[]', '[]', '[]', '[]', '', '', 1, '', 0 FROM threads;
      INSERT INTO drafts (message_seq, revision, unfinished, due_at, due_by) SELECT seq, 1, '{}', 5, 'usr_1' FROM messages;
    `);
  });
  await ask("backup", folder);
  const drafts = ({ data }: typeof elsewhere) => {
    const sqlite = new Database(join(data, "mailroom.db"));
    const rows = sqlite.query("SELECT due_at, due_by, refusal FROM drafts").all();
    sqlite.close();
    return rows;
  };
  expect(await elsewhere.ask("restore", folder)).toMatchObject({ held: 1, unscheduled: 1 });
  expect(drafts(elsewhere)).toEqual([
    { due_at: null, due_by: null, refusal: expect.stringContaining("A backup was restored") },
  ]);
  const sending = openTerminal();
  expect(await sending.ask("restore", folder, "--send-queue")).toMatchObject({ held: 0, unscheduled: 0, reset: [] });
  expect(drafts(sending)).toEqual([{ due_at: 5, due_by: "usr_1", refusal: null }]);
});

test("--send-queue sends queued mail and scheduled drafts", async () => {
  const { folder, elsewhere } = await backedUp();
  const said = await elsewhere.say("restore", folder, "--send-queue");
  expect(said).toMatchObject({ exitCode: 0, stderr: "" });
  expect(await held(elsewhere)).toEqual([{ recipient: "dan@remote.example", state: "waiting", reply: null }]);
});

test("--generation restores that backup; without it, the newest", async () => {
  const { folder, id, add, ask, elsewhere } = await backedUp();
  await add("second");
  await ask("backup", folder);
  expect(await openTerminal().ask("restore", folder)).toMatchObject({ blobs: 2 });
  expect(await elsewhere.ask("restore", folder, "--generation", id)).toMatchObject({ id, blobs: 1 });
  expect(await openTerminal().say("restore", folder, "--generation", "x")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining(id),
  });
});

test("refused: a folder that is not empty, or was made by a newer version; then nothing has changed", async () => {
  const { data, folder, id, within, ask, say, elsewhere } = await backedUp();
  const before = filesOf(data);
  expect(await say("restore", folder)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("is not empty") });
  expect(filesOf(data)).toEqual(before);

  const generation = join(folder, "generations", id);
  const manifest = join(generation, "manifest.json");
  writeFileSync(manifest, (await Bun.file(manifest).text()).replace(/"schema": \d+/, '"schema": 9999'));
  agree(generation);
  expect(await elsewhere.say("restore", folder)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(
      /made by a newer Mailroom \(\S+, schema 9999; this one knows \d+\): restore it with that version/,
    ),
  });
  expect(readdirSync(elsewhere.data).filter((name) => !name.endsWith(".lock"))).toEqual([]);
  await within(() => undefined);
  await ask("user", "list");
});

test("a backup of an earlier schema is migrated, whichever version made it", async () => {
  const old = openTerminal();
  const sqlite = new Database(join(old.data, "mailroom.db"), { create: true });
  for (const migration of MIGRATIONS.slice(0, 2)) sqlite.exec(migration);
  sqlite.exec("PRAGMA user_version = 2; INSERT INTO workspaces VALUES ('wsp_1', 'Old', 1, NULL)");
  sqlite.close();
  const folder = join(temporaryFolder(), "backup");
  expect(await old.ask("backup", folder)).toMatchObject({ schema: 2 });
  expect(await old.ask("backup", "verify", folder)).toMatchObject({ ok: true });
  const elsewhere = openTerminal();
  expect(await elsewhere.ask("restore", folder)).toMatchObject({ schema: 2 });
  expect(await elsewhere.ask("workspace", "list")).toMatchObject([{ id: "wsp_1", name: "Old" }]);
});

test("no command opens the folder during a restore; another restore begins anew", async () => {
  const { folder, elsewhere } = await backedUp();
  writeFileSync(join(elsewhere.data, "restoring"), "");
  writeFileSync(join(elsewhere.data, "mailroom.db"), "half");
  mkdirSync(join(elsewhere.data, "blobs/ff"), { recursive: true });
  writeFileSync(join(elsewhere.data, "blobs/ff/half"), "half");
  expect(await elsewhere.say("user", "list")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("a restore into it has not ended"),
  });
  await elsewhere.ask("restore", folder);
  expect([...filesOf(elsewhere.data).keys()].filter((path) => /half|restoring/.test(path))).toEqual([]);
  expect(await elsewhere.ask("user", "list")).toMatchObject([{ address: "ada@acme.test" }]);
});
