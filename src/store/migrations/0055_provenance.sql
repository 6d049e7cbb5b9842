-- Mail that an API key had filed makes nobody a participant.
ALTER TABLE messages ADD COLUMN by_key INTEGER NOT NULL DEFAULT 0;

-- The journal names conversations. In those into which a key appended or carried mail, what has neither verdicts of its arrival
-- nor an entry in the queue does not count. A move within a mailbox has changes that can be taken back; carrying has none.
UPDATE messages SET by_key = 1
WHERE kind <> 'draft' AND auth IS NULL AND delivered_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM outbound_messages WHERE outbound_messages.id = messages.id)
  AND thread_seq IN (
    SELECT threads.seq FROM journal_entries, json_each(journal_entries.ids) AS named JOIN threads ON threads.id = named.value
    WHERE outcome = 'ok' AND (operation IN ('append', 'import') OR face = 'imap' AND operation IN ('copy', 'move')
      AND NOT EXISTS (SELECT 1 FROM key_changes WHERE key_changes.thread_seq = threads.seq AND field = 'folder'
        AND key_changes.key_id = journal_entries.key_id AND key_changes.at = journal_entries.at)));
