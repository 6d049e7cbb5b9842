-- What an app password lets a mail app do. Those from before could only send, and their people were told so.
ALTER TABLE app_passwords ADD COLUMN access TEXT NOT NULL DEFAULT 'send' CHECK (access IN ('all', 'read', 'send'));
