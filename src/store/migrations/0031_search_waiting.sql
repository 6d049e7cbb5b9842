-- Stored messages whose words the index takes in soon, beside search_backlog: copies of a long message beyond the first.
CREATE TABLE search_waiting (
  message_seq INTEGER PRIMARY KEY REFERENCES messages (seq) ON DELETE CASCADE
);
