/** Data as the version before 0015_search_layout.sql left it. */
import { Database } from "bun:sqlite";
import { MIGRATIONS } from "../../src/store/migrations.ts";

const INDEX = /CREATE VIRTUAL TABLE message_index[^;]*;\s*INSERT INTO message_index[^;]*;/;
const TRIGGER = /CREATE TRIGGER messages_leave_index.*?END;/s;

/** Takes a database of this version back to that schema, with another entry for each message in the index of then. */
export function takeBackToSchema14(file: string): void {
  const [first = ""] = MIGRATIONS;
  const sqlite = new Database(file);
  sqlite.exec(`
    DROP TRIGGER messages_leave_index; DROP TABLE message_index; DROP TABLE search_backlog;
    DROP VIEW webhook_log; DROP VIEW webhook_pending; DROP TABLE webhook_waiting;
    ${INDEX.exec(first)?.[0]} ${TRIGGER.exec(first)?.[0]}
    INSERT INTO message_index (rowid, scope, subject, body, sender, recipients, files)
      SELECT seq, 'x', 'x', 'word', 'x', 'x', 'x' FROM messages;
    PRAGMA user_version = 14`);
  sqlite.close();
}

/** Every word of every message, where it stands. */
export function entriesOf(sqlite: Database): unknown[] {
  sqlite.run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.entries USING fts5vocab(main, message_index, instance)");
  return sqlite.query("SELECT doc, col, term, offset FROM temp.entries ORDER BY doc, col, offset, term").all();
}
