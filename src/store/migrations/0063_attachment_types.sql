-- What a message says of its files beside their media types: the parameters of Content-Type, decoded, as [[name, value], …]; whether
-- the file has no name there; whether it stands beside the text, as one of its alternatives. Nothing of it is known of earlier mail.
ALTER TABLE attachments ADD COLUMN parameters TEXT NOT NULL DEFAULT '[]';
ALTER TABLE attachments ADD COLUMN unnamed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attachments ADD COLUMN alternative INTEGER NOT NULL DEFAULT 0;

-- Texts that programs attached to drafts have their charset in the type.
UPDATE attachments SET
  content_type = substr(content_type, 1, length(content_type) - length('; charset=utf-8')),
  parameters = '[["charset","utf-8"]]'
WHERE message_seq IN (SELECT message_seq FROM drafts) AND content_type LIKE '_%; charset=utf-8';
