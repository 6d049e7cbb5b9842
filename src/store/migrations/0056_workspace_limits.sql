-- How many mailboxes and bytes a workspace may have; null: as many as it likes.
ALTER TABLE workspaces ADD COLUMN most_mailboxes INTEGER;
ALTER TABLE workspaces ADD COLUMN most_bytes INTEGER;

-- The sum of mailbox_usage, kept by triggers, so that no message that arrives costs a look at all mailboxes.
CREATE TABLE workspace_usage (
  workspace_id TEXT PRIMARY KEY REFERENCES workspaces(id) ON DELETE CASCADE,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO workspace_usage
  SELECT workspace_id, sum(bytes) FROM mailbox_usage JOIN mailboxes ON mailboxes.id = mailbox_id GROUP BY workspace_id;

CREATE TRIGGER mailbox_usage_begin AFTER INSERT ON mailbox_usage BEGIN
  INSERT INTO workspace_usage (workspace_id, bytes) SELECT workspace_id, new.bytes FROM mailboxes WHERE id = new.mailbox_id
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER mailbox_usage_change AFTER UPDATE OF bytes ON mailbox_usage BEGIN
  UPDATE workspace_usage SET bytes = bytes + new.bytes - old.bytes
    WHERE workspace_id = (SELECT workspace_id FROM mailboxes WHERE id = new.mailbox_id);
END;
CREATE TRIGGER mailbox_usage_end AFTER DELETE ON mailbox_usage BEGIN
  UPDATE workspace_usage SET bytes = bytes - old.bytes
    WHERE workspace_id = (SELECT workspace_id FROM mailboxes WHERE id = old.mailbox_id);
END;
-- Before the mailbox is gone, by which its workspace is found.
CREATE TRIGGER mailboxes_leave_usage BEFORE DELETE ON mailboxes BEGIN
  DELETE FROM mailbox_usage WHERE mailbox_id = old.id;
END;
