/**
 * A database of any older schema is upgraded and keeps its data; a failed upgrade leaves it unchanged; and a newer one
 * is refused.
 */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { sql } from "drizzle-orm";
import { type BrowserSession, findSession, requireConfirmedSession } from "../../src/access/sessions.ts";
import { listEndpointDeliveries, resendEndpointDelivery } from "../../src/events/delivery-log.ts";
import { addWebhookDeliveries, claimWebhookDeliveries, loadClaimedDelivery } from "../../src/events/delivery-queue.ts";
import { requireEndpoint } from "../../src/events/endpoints.ts";
import { stampThreadChanges } from "../../src/mailbox/changing/change-feed.ts";
import { listSuppressions } from "../../src/outbound/suppression.ts";
import { claimFolder } from "../../src/store/claim.ts";
import { MIGRATIONS, migrateDatabase } from "../../src/store/migrate.ts";
import * as schema from "../../src/store/schema.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { folderOf, peek, rowsOf, schemaOf, tablesOf } from "../harness/data/table-rows.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";
import { expectRowsKept } from "./rows-kept.ts";

const LATEST = MIGRATIONS.length;
const open = (folder: string): Store => openStore({ folder, runtime: fakeRuntime() });

/** Upgrades `folder` from its schema with that list. */
const upgrade = (folder: string, migrations: readonly string[]): void =>
  peek(folder, (sqlite) => {
    sqlite.exec("PRAGMA foreign_keys = ON");
    migrateDatabase(sqlite, { claim: () => claimFolder(folder), migrations });
  });

/** One of ten, and the latest. */
const someVersions = MIGRATIONS.map((_, index) => index + 1).filter(
  (version) => version % 10 === 1 || version > LATEST - 3,
);
test.each(someVersions)(
  "from schema %i, every row is kept in the new schema, and the program reads it",
  expectRowsKept,
);

test("every table has a row to be kept", () => {
  const folder = folderOf(LATEST);
  expect(peek(folder, (sqlite) => tablesOf(sqlite).length)).toBeGreaterThan(20);
});

test("changes from before they had kinds and times get them, and numbers go on from there", () => {
  const folder = folderOf(32);
  peek(folder, (sqlite) => {
    sqlite.exec(`
      DELETE FROM thread_changes;
      INSERT INTO thread_changes (seq, thread_seq, thread_id, mailbox_id) VALUES (900, 9999, 'thr_last', 'mbx_1');
      DELETE FROM thread_changes WHERE seq = 900;
      INSERT INTO thread_changes (seq, thread_seq, thread_id, mailbox_id) VALUES (800, 9998, 'thr_deleted', 'mbx_1');
      INSERT INTO thread_changes (seq, thread_seq, thread_id, mailbox_id) SELECT 801, seq, id, mailbox_id FROM threads LIMIT 1;
    `);
  });
  const runtime = fakeRuntime();
  const store = openStore({ folder, runtime });
  stampThreadChanges(coreOver(store, runtime));
  const rows = () => store.db.select().from(schema.threadChanges).orderBy(schema.threadChanges.seq).all();
  expect(rows().map(({ seq, kind, at }) => [seq, kind, at])).toEqual([
    [800, "gone", null],
    [801, "upserted", null],
  ]);
  store.transact((tx) => tx.update(schema.threads).set({ starred: sql`1 - starred` }).run());
  expect(rows().map(({ seq, kind, at }) => [seq, kind, at])).toEqual([
    [800, "gone", runtime.now()],
    [901, "upserted", runtime.now()],
  ]);
});

test("training from before spoofed senders were distinguished applies to the real senders", () => {
  const folder = folderOf(3, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO mailboxes (id, workspace_id, address, name, created_at) VALUES ('mbx_1', 'wsp_1', 'a@b.example', 'A', 1);
      INSERT INTO sender_verdicts VALUES ('mbx_1', 'bad@x.example', 'spam', 2), ('mbx_1', 'good@x.example', 'forgiven', 3)`);
  });
  expect(open(folder).db.select().from(schema.senderVerdicts).all()).toEqual([
    { mailboxId: "mbx_1", sender: "bad@x.example", spoofed: false, verdict: "spam", trainedAt: 2 },
    { mailboxId: "mbx_1", sender: "good@x.example", spoofed: false, verdict: "forgiven", trainedAt: 3 },
  ]);
});

test("texts attached to drafts have their charset beside the type", () => {
  const folder = folderOf(62);
  peek(folder, (sqlite) => {
    const [one, other] = ["text/csv; charset=utf-8", "text/plain"];
    sqlite.exec(`
      PRAGMA foreign_keys = OFF;
      DELETE FROM attachments;
      INSERT INTO attachments (id, message_seq, position, filename, content_type, size, inline, blob)
        SELECT 'att_' || v.position, message_seq, v.position, 'a', v.type, 1, 0, 'b' FROM drafts,
          (SELECT 1 AS position, '${one}' AS type UNION ALL SELECT 2, '${other}') AS v
        WHERE message_seq = (SELECT min(message_seq) FROM drafts)`);
  });
  const rows = open(folder).db.select().from(schema.attachments).orderBy(schema.attachments.id).all();
  const known = rows.map(({ contentType, parameters, unnamed, alternative }) => [
    contentType,
    parameters,
    unnamed,
    alternative,
  ]);
  expect(known).toEqual([
    ["text/csv", [["charset", "utf-8"]], false, false],
    ["text/plain", [], false, false],
  ]);
});

test("mail whose HTML says more than its text is to be indexed again", () => {
  for (const seen of ["NULL", "x'28'"]) {
    const folder = folderOf(52);
    peek(folder, (sqlite) => sqlite.exec(`DELETE FROM search_waiting; UPDATE message_bodies SET seen_text = ${seen}`));
    const { db } = open(folder);
    const [body] = db.select({ messageSeq: schema.messageBodies.messageSeq }).from(schema.messageBodies).all();
    expect(db.select().from(schema.searchWaiting).all()).toEqual(seen === "NULL" || !body ? [] : [body]);
  }
});

test("mail from before provenance that a key's journal shows does not count; what arrived, was sent or was imported does", () => {
  const folder = folderOf(54, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO mailboxes (id, workspace_id, address, name, created_at) VALUES ('mbx_1', 'wsp_1', 'a@b.example', 'A', 1)`);
    const insert = (table: string, row: Record<string, string | number | null>): void => {
      const names = Object.keys(row).map((name) => `"${name}"`);
      sqlite
        .query(`INSERT INTO ${table} (${names.join()}) VALUES (${names.map(() => "?").join()})`)
        .run(...Object.values(row));
    };
    const threads = ["appended", "copied", "moved", "refused", "imported"];
    threads.forEach((name, i) => {
      insert("threads", {
        ...{ seq: i + 1, id: `thr_${name}`, mailbox_id: "mbx_1", folder: "inbox", unread: 0, starred: 0 },
        ...{ last_message_at: 1, has_attachments: 0, message_count: 1, next_ordinal: 9, received_on: "a@b.example" },
        ...{ subject: "", subject_key: "", snippet: "", counterpart: "{}", participants: "[]" },
      });
      const kinds = [
        ["filed", { kind: "received" }],
        ["filed_sent", { kind: "sent" }],
        ["arrived", { kind: "received", auth: "{}" }],
        ["sent", { kind: "sent" }],
        ["delivered", { kind: "sent", delivered_at: 1 }],
        ["draft", { kind: "draft" }],
      ] as const;
      kinds.forEach(([kind, more], ordinal) => {
        insert("messages", {
          ...{ seq: (i + 1) * 65_536 + ordinal, id: `${name} ${kind}`, thread_seq: i + 1, mailbox_id: "mbx_1" },
          ...{
            folder: "inbox",
            read: 0,
            date: 1,
            filed_at: 1,
            from: "{}",
            to: "[]",
            cc: "[]",
            bcc: "[]",
            reply_to: "[]",
          },
          ...{ subject: "", snippet: "", size: 1, fingerprint: "", has_attachments: 0, ...more },
        });
      });
      insert("outbound_messages", {
        ...{ id: `${name} sent`, workspace_id: "wsp_1", mailbox_id: "mbx_1", mailbox: "a@b.example" },
        ...{ thread_id: `thr_${name}`, message_id: `<${name}@b.example>`, subject: "", domain: "b.example" },
        ...{ return_path: `bounce+${name}@b.example`, accepted_at: 1, recipients: 1, outside_recipients: 0 },
        ...{ mailbox_total: 1, workspace_total: 1 },
      });
    });
    const entry = (operation: string, thread: string, at: number, outcome = "ok"): void =>
      insert("journal_entries", {
        ...{ at, workspace_id: "wsp_1", key_id: "key_1", operation, face: "imap", ids: `["thr_${thread}"]`, outcome },
        ...{ changes: 1, recipients: 0, sent: 0 },
      });
    entry("append", "appended", 1);
    entry("copy", "copied", 2);
    entry("move", "moved", 3);
    insert("key_changes", {
      ...{ at: 3, workspace_id: "wsp_1", key_id: "key_1", mailbox_id: "mbx_1", thread_seq: 3, thread_id: "thr_moved" },
      ...{ field: "folder", before: '"inbox"' },
    });
    entry("append", "refused", 4, "rate_limited");
  });
  const { db } = open(folder);
  const marked = db.select().from(schema.messages).where(sql`by_key = 1`).all();
  expect(marked.map(({ id }) => id).sort()).toEqual([
    "appended filed",
    "appended filed_sent",
    "copied filed",
    "copied filed_sent",
  ]);
});

test("messages that were moved alone before 0062 stay so; others follow their conversation", () => {
  const folder = folderOf(61, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO mailboxes (id, workspace_id, address, name, created_at) VALUES ('mbx_1', 'wsp_1', 'a@b.example', 'A', 1)`);
    const messages = {
      inbox: ["received inbox", "received archive", "received trash", "sent sent", "sent archive"],
      archive: ["received archive", "sent sent", "sent inbox"],
      trash: ["received trash", "sent trash", "received spam"],
      sent: ["sent sent", "received spam"],
      drafts: ["draft drafts"],
    };
    Object.entries(messages).forEach(([place, kept], i) => {
      sqlite
        .query(
          `INSERT INTO threads (seq, id, mailbox_id, folder, unread, starred, last_message_at, has_attachments, message_count,
             next_ordinal, received_on, subject, subject_key, snippet, counterpart, participants)
           VALUES (?, ?, 'mbx_1', ?, 0, 0, 1, 0, 1, 9, 'a@b.example', '', '', '', '{}', '[]')`,
        )
        .run(i + 1, `thr_${place}`, place);
      kept.forEach((one, ordinal) => {
        const [kind = "", own = ""] = one.split(" ");
        sqlite
          .query(
            `INSERT INTO messages (seq, id, thread_seq, mailbox_id, kind, folder, read, date, filed_at, "from", "to", cc, bcc,
               reply_to, subject, snippet, size, fingerprint, has_attachments)
             VALUES (?, ?, ?, 'mbx_1', ?, ?, 0, 1, 1, '{}', '[]', '[]', '[]', '[]', '', '', 1, '', 0)`,
          )
          .run((i + 1) * 65_536 + ordinal, `${place}: ${one}`, i + 1, kind, own);
      });
    });
    // Its conversation followed it, or left it behind; of the third it is known since when.
    sqlite.exec(`INSERT INTO discarded_messages SELECT seq, 5 FROM messages
      WHERE id IN ('trash: received trash', 'inbox: received archive', 'inbox: received trash')`);
  });
  const { db } = open(folder);
  const ids = (column: string) =>
    db.$client
      .query(`SELECT ${column} FROM messages LEFT JOIN discarded_messages
    ON message_seq = seq WHERE apart = 1 AND mailbox_id = 'mbx_1' ORDER BY seq`)
      .values();
  expect(ids("id, since")).toEqual([
    ["inbox: received archive", null],
    ["inbox: received trash", 5],
    ["inbox: sent archive", null],
    ["archive: sent inbox", null],
    ["trash: received spam", null],
    ["sent: received spam", null],
  ]);
  const discarded = "SELECT id FROM messages JOIN discarded_messages ON message_seq = seq ORDER BY seq";
  expect(db.$client.query(discarded).values()).toEqual([
    ["inbox: received trash"],
    ["trash: received spam"],
    ["sent: received spam"],
  ]);
});

test("a session from before an upgrade continues, without a proof of identity", () => {
  const folder = folderOf(18, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO users (id, workspace_id, email, name, role, created_at) VALUES ('usr_1', 'wsp_1', 'a@b.example', 'A', 'owner', 1);
      INSERT INTO sessions (id, user_id, hash, user_agent, created_at, last_used_at, expires_at, source, kept)
      VALUES ('ses_1', 'usr_1', '${createHash("sha256").update("token").digest("hex")}', '', 1, 1, 1000, '', 1)`);
  });
  const { db } = open(folder);
  const session = findSession(db, "token", 10);
  expect(session).toMatchObject({ id: "ses_1", persistent: true, confirmedAt: null });
  expect(() => requireConfirmedSession(db, session as BrowserSession, 10)).toThrow("that it is still you");
});

test("a mailbox from before an upgrade never expires", () => {
  const folder = folderOf(23, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO mailboxes (id, workspace_id, address, name, created_at) VALUES ('mbx_1', 'wsp_1', 'a@b.example', 'A', 1)`);
  });
  expect(open(folder).db.select().from(schema.mailboxes).all()).toMatchObject([{ id: "mbx_1", expiresAt: null }]);
});

test("keys from before policies have none; whom mailboxes had sent to is known, except by Bcc", () => {
  const folder = folderOf(36);
  peek(folder, (sqlite) => {
    sqlite.exec("DELETE FROM queue_entries");
    sqlite.exec("UPDATE outbound_messages SET notice = 0, mailbox_id = (SELECT id FROM mailboxes LIMIT 1)");
    const [message] = sqlite.query<{ seq: number }, []>("SELECT seq FROM outbound_messages").all();
    const add = sqlite.query(
      "INSERT INTO queue_entries (id, message_seq, recipient, field, domain, state) VALUES (?, ?, ?, ?, 'remote.example', ?)",
    );
    const rows = [
      ["Ada+news@remote.example", "to", "delivered"],
      ['"odd+one x"@remote.example', "cc", "delivered"],
      ["+tag@remote.example", "cc", "delivered"],
      ["secret@remote.example", "bcc", "delivered"],
      ["waits@remote.example", "to", "waiting"],
      ["gone@remote.example", "to", "bounced"],
    ];
    for (const [recipient = "", field = "", state = ""] of rows) {
      add.run(`que_${recipient}`, message?.seq ?? 0, recipient, field, state);
    }
  });
  const { db } = open(folder);
  const known = db.select({ address: schema.knownRecipients.address }).from(schema.knownRecipients).all();
  expect(known.map(({ address }) => address).sort()).toEqual([
    '"odd+one x"@remote.example',
    "+tag@remote.example",
    "ada@remote.example",
  ]);
  expect(db.select().from(schema.apiKeys).all()).toMatchObject([{ policy: {}, pausedAt: null, madeBy: null }]);
});

test("a webhook created after an upgrade gets no earlier events", () => {
  const folder = folderOf(2);
  expect(open(folder).db.select().from(schema.webhookCursor).all()).toEqual([{ id: 1, eventSeq: 1 }]);
});

test("deliveries from before 0016 and 0017 keep their ids, and what waits its place and number", () => {
  const folder = folderOf(16, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO webhook_endpoints (id, workspace_id, url, events, secret, state, created_at, pace, after_event)
        VALUES ('whk_1', 'wsp_1', 'https://a.example/', '["message.inbound"]', 'whsec_', 'active', 1, 'proven', 0);
      INSERT INTO events (id, workspace_id, event, created_at, data)
        SELECT 'evt_' || value, 'wsp_1', 'message.inbound', 1, '{}' FROM json_each('["a","b","c","d"]');
      INSERT INTO webhook_deliveries (seq, id, endpoint_seq, event_seq, event_id, event, sample, state, created_at) VALUES
        (1, 'whd_old', 1, 1, 'evt_a', 'message.inbound', NULL, 'delivered', 1),
        (2, 'whd_b_1', 1, 2, 'evt_b', 'message.inbound', NULL, 'delivered', 1),
        (3, 'whd_test', 1, NULL, 'evt_t', 'message.bounced', '{}', 'failed', 1);
      INSERT INTO webhook_waiting VALUES (1, 8, 3, 1, NULL), (1, 9, 4, 1, 5);
      UPDATE sqlite_sequence SET seq = 9 WHERE name = 'webhook_deliveries'`);
  });
  const store = open(folder);
  const endpoint = requireEndpoint(store.db, "whk_1");
  expect(
    listEndpointDeliveries(store.db, endpoint, {}).map(({ seq, id, eventId, event, state }) => [
      seq,
      id,
      eventId,
      event,
      state,
    ]),
  ).toEqual([
    [9, "whd_d_1", "evt_d", "message.inbound", "pending"],
    [8, "whd_c_1", "evt_c", "message.inbound", "pending"],
    [3, "whd_test", "evt_t", "message.bounced", "failed"],
    [2, "whd_b_1", "evt_b", "message.inbound", "delivered"],
    [1, "whd_old", "evt_a", "message.inbound", "delivered"],
  ]);
  for (const id of ["whd_d_1", "whd_c_1", "whd_test", "whd_b_1", "whd_old"])
    expect(store.transact((tx) => resendEndpointDelivery(tx, id, 10)).id).toBe(id);
  const next = { id: "whd_new", endpointSeq: 1, eventSeq: 4, eventId: "evt_d", event: "message.inbound" };
  store.transact((tx) => addWebhookDeliveries(tx, [next], 10));
  expect(listEndpointDeliveries(store.db, endpoint, { limit: 1 }).map(({ seq, id }) => [seq, id])).toEqual([
    [10, "whd_new"],
  ]);
});

test("deliveries that waited in runs, and those logged by the ids of others, are listed, sent and sent again after 0024", () => {
  const folder = folderOf(23, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO webhook_endpoints (id, workspace_id, url, events, secret, state, created_at, pace, after_event, due_at) VALUES
        ('whk_1', 'wsp_1', 'https://a.example/', '["message.inbound"]', 'whsec_', 'active', 1, 'proven', 0, 1),
        ('whk_2', 'wsp_1', 'https://b.example/', '["message.inbound"]', 'whsec_', 'active', 1, 'failing', 0, 5);
      INSERT INTO events (id, workspace_id, event, created_at, data)
        SELECT 'evt_' || value, 'wsp_1', 'message.inbound', 1, '{"n":' || key || '}'
        FROM json_each('["a","b","c","d","e","f","g"]');
      INSERT INTO webhook_deliveries (seq, endpoint_seq, event_seq, state, attempts, due_at, status, response, error, created_at,
          finished_at, id, event_id, event, sample) VALUES
        (1, 1, 1, 'delivered', 1, NULL, 200, 'ok', NULL, 1, 2, NULL, NULL, NULL, NULL),
        (2, 1, 2, 'delivered', 1, NULL, 200, 'ok', NULL, 1, 2, 'whd_old', NULL, NULL, NULL),
        (3, 1, NULL, 'failed', 1, NULL, 503, 'no', 'answered 503', 1, 2, 'whd_test', 'evt_t', 'message.bounced', '{}'),
        (4, 2, 1, 'retrying', 2, 5, 500, 'no', 'answered 500', 1, NULL, NULL, NULL, NULL, NULL);
      -- Two and three that follow each other, the first of them under way; the event of one is gone.
      INSERT INTO webhook_waiting (endpoint_seq, seq, event_seq, created_at, leased_until, length) VALUES
        (1, 10, 3, 1, 1000, 2), (1, 12, 5, 1, NULL, 3), (2, 20, 7, 1, NULL, 1);
      DELETE FROM events WHERE id = 'evt_f';
      UPDATE sqlite_sequence SET seq = 30 WHERE name = 'webhook_deliveries'`);
  });
  const store = open(folder);
  const listed = (id: string) =>
    listEndpointDeliveries(store.db, requireEndpoint(store.db, id), {}).map(
      ({ seq, id, eventId, state, attempts, leased }) => [...[seq, id, eventId, state, attempts, leased]],
    );
  expect(listed("whk_1")).toEqual([
    [14, "whd_g_1", "evt_g", "pending", 0, false],
    [12, "whd_e_1", "evt_e", "pending", 0, false],
    [11, "whd_d_1", "evt_d", "pending", 0, true],
    [10, "whd_c_1", "evt_c", "pending", 0, true],
    [3, "whd_test", "evt_t", "failed", 1, false],
    [2, "whd_old", "evt_b", "delivered", 1, false],
    [1, "whd_a_1", "evt_a", "delivered", 1, false],
  ]);
  expect(listed("whk_2")).toEqual([
    [20, "whd_g_2", "evt_g", "pending", 0, false],
    [4, "whd_a_2", "evt_a", "retrying", 2, false],
  ]);
  const [one] = listEndpointDeliveries(store.db, requireEndpoint(store.db, "whk_2"), { state: "retrying" });
  expect(one).toMatchObject({ status: 500, response: "no", error: "answered 500", dueAt: 5, finishedAt: null });
  expect(requireEndpoint(store.db, "whk_2").health).toBe("failing");

  const claimed = (endpointSeq: number, now: number) =>
    store.transact((tx) => claimWebhookDeliveries(tx, endpointSeq, 9, now, now + 1_000));
  expect(claimed(2, 5)).toEqual([4, 20]);
  expect(claimed(1, 5)).toEqual([12, 14]);
  expect(loadClaimedDelivery(store.db, 14)?.body).toContain('"id":"evt_g"');
  // The former process's lease has expired.
  expect(claimed(1, 1_000)).toEqual([10, 11]);
  for (const id of ["whd_a_1", "whd_old", "whd_test"]) {
    expect(store.transact((tx) => resendEndpointDelivery(tx, id, 10)).id).toBe(id);
  }
  expect(() => store.transact((tx) => resendEndpointDelivery(tx, "whd_c_1", 1_001))).toThrow("under way");
});

test("reasons of suppressions lose other servers' words, and keep the operator's", () => {
  const folder = folderOf(18, (sqlite) => {
    sqlite.exec(`
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO suppressions (id, workspace_id, address, reason, created_at) VALUES
        ('sup_1', 'wsp_1', 'a@x.example', 'hard bounce: 550 5.1.1 <a@x.example> gone, wrote alice', 1),
        ('sup_2', 'wsp_1', 'b@x.example', 'complaint: reported as abuse', 2),
        ('sup_3', 'wsp_1', 'c@x.example', 'Added by the operator', 3),
        ('sup_4', 'wsp_1', 'd@x.example', 'Complaint: by telephone', 4)`);
  });
  expect(listSuppressions(open(folder).db).map(({ id, reason }) => [id, reason])).toEqual([
    ["sup_1", "hard bounce"],
    ["sup_2", "complaint"],
    ["sup_3", "Added by the operator"],
    ["sup_4", "Complaint: by telephone"],
  ]);
});

describe("a failed migration", () => {
  const refused: [what: string, sql: string, reason: string][] = [
    ["half-way through its statements", "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);", "no such table"],
    ["by leaving rows that refer to nothing", "DELETE FROM workspaces", "a row of"],
  ];
  test.each(refused)("%s, leaves everything unchanged and is named", (_, sql, reason) => {
    const folder = folderOf(LATEST - 1);
    const image = (): unknown => peek(folder, (sqlite) => [schemaOf(sqlite), rowsOf(sqlite)]);
    const before = image();
    const attempt = (): void => upgrade(folder, [...MIGRATIONS, sql]);
    expect(attempt).toThrow(
      `from ${LATEST - 1} to ${LATEST + 1}, and is as it was (migration ${LATEST + 1}: ${reason}`,
    );
    expect(image()).toEqual(before);
    open(folder).close();
  });

  test("a table that others refer to can be rebuilt without losing their rows", () => {
    const folder = folderOf(LATEST);
    const { workspaces: _, ...others } = peek(folder, rowsOf);
    upgrade(folder, [
      ...MIGRATIONS,
      `CREATE TABLE rebuilt (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL) WITHOUT ROWID;
       INSERT INTO rebuilt SELECT id, name, created_at FROM workspaces;
       DROP TABLE workspaces;
       ALTER TABLE rebuilt RENAME TO workspaces;`,
    ]);
    expect(peek(folder, rowsOf)).toMatchObject(others);
  });
});
