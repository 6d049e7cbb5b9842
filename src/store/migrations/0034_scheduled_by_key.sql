-- The API key that asked for a draft to be sent at a time: it is judged again when the time comes.
ALTER TABLE drafts ADD COLUMN due_key TEXT;
