-- A memory saved in a chat is that chat's until a person shares it. Those from before stay where they were found.
ALTER TABLE memory ADD COLUMN visibility TEXT NOT NULL DEFAULT 'workspace';
CREATE INDEX memory_chat ON memory (workspace_id, chat_id) WHERE chat_id IS NOT NULL;
