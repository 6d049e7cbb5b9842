CREATE TABLE new_access_notices (
  id INTEGER PRIMARY KEY NOT NULL,
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  deed TEXT NOT NULL CHECK (deed IN ('password', 'second_factor', 'key')),
  done_by TEXT NOT NULL CHECK (done_by IN ('self', 'admin', 'operator')),
  app_passwords INTEGER NOT NULL,
  keys INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);
INSERT INTO new_access_notices SELECT id, user_id, deed, done_by, app_passwords, keys, created_at FROM access_notices;
DROP TABLE access_notices;
ALTER TABLE new_access_notices RENAME TO access_notices;
