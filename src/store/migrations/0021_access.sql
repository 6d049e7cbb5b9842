ALTER TABLE sessions ADD COLUMN confirmed_at INTEGER;

CREATE TABLE access_notices (
  id INTEGER PRIMARY KEY NOT NULL,
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  deed TEXT NOT NULL CHECK (deed IN ('password', 'second_factor')),
  done_by TEXT NOT NULL CHECK (done_by IN ('self', 'admin', 'operator')),
  app_passwords INTEGER NOT NULL,
  keys INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);
