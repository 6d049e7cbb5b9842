-- The API key that added an endpoint, or set its URL last; null: a person did, or it is from before.
ALTER TABLE webhook_endpoints ADD COLUMN made_by TEXT;
