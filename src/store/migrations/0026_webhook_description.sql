-- What a webhook endpoint is for, in its admin's words.
ALTER TABLE webhook_endpoints ADD COLUMN description TEXT NOT NULL DEFAULT '';
