-- The person signed in with a password that is shorter than a new one may be. Passwords are hashed, so that is known only then.
ALTER TABLE users ADD COLUMN short_password INTEGER NOT NULL DEFAULT 0;
