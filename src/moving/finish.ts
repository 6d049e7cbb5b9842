/** The transaction with which a workspace that has arrived begins to be served. */
import type { Database } from "bun:sqlite";
import type { Tx } from "../store/store.ts";
import type { ExportManifest } from "./export-layout.ts";
import {
  ANNOUNCED,
  chooseFreshOffsets,
  insertRowsSql,
  listQuotedColumns,
  type Offsets,
  ownedByWorkspaceSql,
  raiseTableSequence,
  readTableSequence,
} from "./rows.ts";
import { MOVED } from "./tables.ts";

/** Adds what makes the workspace a served one. Its domains are claims, and its queue stays parked until they are verified. */
export function finishWorkspaceImport(tx: Tx, { id, workspace }: ExportManifest, logs: Offsets, now: number): void {
  const sqlite = tx.$client;
  for (const name of ["events", "thread_changes"])
    raiseTableSequence(sqlite, name, readTableSequence(sqlite, "moved", name));
  const lasting = MOVED.filter(({ stage }) => stage === "last");
  const offsets = {
    ...logs,
    ...chooseFreshOffsets(
      sqlite,
      lasting.map(({ name }) => name),
    ),
  };
  for (const { name } of lasting) {
    if (name === "mailboxes") {
      const columns = listQuotedColumns(sqlite, name).filter((column) => column !== '"id"');
      const set = columns.map((column) => `${column} = m.${column}`).join(", ");
      sqlite.exec(`UPDATE main.mailboxes SET ${set} FROM moved.mailboxes m WHERE m.id = mailboxes.id`);
      continue;
    }
    sqlite.prepare(`DELETE FROM main.${name} WHERE ${ownedByWorkspaceSql(name)}`).run(workspace.id);
    sqlite.exec(insertRowsSql(sqlite, name, offsets, "TRUE"));
  }
  cancelNotices(sqlite, workspace.id, now);
  announce(sqlite, logs);
  tellFollowers(sqlite, workspace.id);
  sqlite
    .prepare(
      `UPDATE main.workspaces SET moving = NULL, export_id = ?, paused_reason = m.paused_reason, keys_paused_at = m.keys_paused_at,
         most_mailboxes = coalesce(workspaces.most_mailboxes, m.most_mailboxes),
         most_bytes = coalesce(workspaces.most_bytes, m.most_bytes)
       FROM moved.workspaces m WHERE workspaces.id = m.id`,
    )
    .run(id);
}

/** Gives up what the other server wrote in its own name: a server sends its own notices only, whose domain is not asked for. */
function cancelNotices(sqlite: Database, workspaceId: string, now: number): void {
  const notices = "message_seq IN (SELECT seq FROM main.outbound_messages WHERE workspace_id = ?1 AND notice = 1)";
  sqlite
    .prepare(
      `UPDATE main.queue_entries SET state = 'cancelled', due_at = NULL, settled_at = ?2 WHERE state = 'held' AND ${notices}`,
    )
    .run(workspaceId, now);
  sqlite.prepare(`DELETE FROM main.outbound_contents WHERE ${notices}`).run(workspaceId);
}

/** Has the webhooks go on: with the deliveries that wait, and with the events that the other server had not announced. */
function announce(sqlite: Database, logs: Offsets): void {
  const columns = listQuotedColumns(sqlite, "events")
    .filter((column) => column !== '"seq"')
    .join(", ");
  sqlite.exec(
    `INSERT INTO main.events (${columns}) SELECT ${columns} FROM moved.events m WHERE NOT (${ANNOUNCED}) ORDER BY seq;
     UPDATE main.webhook_endpoints SET due_at = m.due_at, sweeping = m.sweeping, telling = m.telling,
       after_event = coalesce(
         (SELECT max(e.seq) FROM moved.events o JOIN main.events e ON e.id = o.id WHERE o.seq <= m.after_event AND NOT (${ANNOUNCED.replace("m.", "o.")})),
         (SELECT event_seq FROM moved.webhook_cursor) + ${logs.events ?? 0})
     FROM moved.webhook_endpoints m WHERE m.id = webhook_endpoints.id`,
  );
}

/** Programs that followed the other server learn of all conversations anew, and which were deleted. */
function tellFollowers(sqlite: Database, workspaceId: string): void {
  const { seq } = sqlite
    .prepare<{ seq: number }, []>("SELECT coalesce(max(seq), 0) AS seq FROM main.thread_changes")
    .get() ?? { seq: 0 };
  const after = Math.max(seq, readTableSequence(sqlite, "main", "thread_changes"));
  sqlite
    .prepare(
      `INSERT INTO main.thread_changes (seq, thread_seq, thread_id, mailbox_id, kind)
       SELECT ?1 + n, -?1 - n, thread_id, mailbox_id, kind
       FROM (SELECT row_number() OVER (ORDER BY seq) AS n, * FROM moved.thread_changes)`,
    )
    .run(after);
  sqlite
    .prepare(
      `INSERT INTO main.thread_changes (kind, user_id, through)
       SELECT 'upserted', id, coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'threads'), 0)
       FROM main.users WHERE workspace_id = ?`,
    )
    .run(workspaceId);
}
