-- The key that set the end of a mailbox, and when; null: a person did. And when its owner was told that it ends.
ALTER TABLE mailboxes ADD COLUMN ended_by TEXT;
ALTER TABLE mailboxes ADD COLUMN ended_at INTEGER;
ALTER TABLE mailboxes ADD COLUMN end_told_at INTEGER;
