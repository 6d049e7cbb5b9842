-- Which host accepted a message for a recipient: a report that comes from there is believed.
ALTER TABLE queue_entries ADD COLUMN accepted_by TEXT;

-- Why an address is suppressed is shown to people who may not know that it was written to, by Bcc: no words of others.
UPDATE suppressions SET reason = 'hard bounce' WHERE reason GLOB 'hard bounce: *';
UPDATE suppressions SET reason = 'complaint' WHERE reason GLOB 'complaint: reported as *';
