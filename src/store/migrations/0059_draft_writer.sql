-- The API key that wrote a draft last; null: a person did, or it is from before.
ALTER TABLE drafts ADD COLUMN written_by TEXT;
