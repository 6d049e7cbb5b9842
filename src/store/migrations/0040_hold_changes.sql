-- A decision about a held message is a change of its conversation, so that open pages and programs learn of it.
CREATE TRIGGER holds_change AFTER UPDATE OF state ON holds WHEN old.state <> new.state BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind)
    SELECT threads.seq, threads.id, threads.mailbox_id, 'upserted'
    FROM messages JOIN threads ON threads.seq = thread_seq WHERE messages.seq = new.message_seq;
END;
