-- Workspaces that move to another server (moving/): 'out' since the last export, 'in' while an import is under way; and the
-- id of the export with which it left, or came.
ALTER TABLE workspaces ADD COLUMN moving TEXT;
ALTER TABLE workspaces ADD COLUMN export_id TEXT;
