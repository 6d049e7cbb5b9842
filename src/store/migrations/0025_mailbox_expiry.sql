-- From then on the mailbox takes no mail and sends none; 30 days later it is removed. Null: never.
ALTER TABLE mailboxes ADD COLUMN expires_at INTEGER;
