-- What of a message's HTML its reader sees, for models: made in a worker when the message comes, and read from here.
-- Mail from before has version 0, and gets its own when it is read first.
ALTER TABLE message_bodies ADD COLUMN seen_text BLOB;
ALTER TABLE message_bodies ADD COLUMN seen_hidden INTEGER NOT NULL DEFAULT 0;
ALTER TABLE message_bodies ADD COLUMN seen_version INTEGER NOT NULL DEFAULT 0;
