-- Sanitised HTML is packed from now on, and its column may have bytes; these are as many unpacked.
ALTER TABLE message_bodies ADD COLUMN html_bytes INTEGER;
