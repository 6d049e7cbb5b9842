-- Whoever is known to be slow, and whoever is not known at all, waits in a line of its own: what is in front of one line
-- is not passed again at every claim of another.
ALTER TABLE queue_domains ADD COLUMN line TEXT NOT NULL DEFAULT 'open' CHECK (line IN ('open', 'new', 'slow'));
DROP INDEX queue_domains_by_due;
CREATE INDEX queue_domains_by_line ON queue_domains(line, due_at);
