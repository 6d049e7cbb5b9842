CREATE INDEX messages_without_id ON messages(mailbox_id, fingerprint) WHERE message_id IS NULL;
