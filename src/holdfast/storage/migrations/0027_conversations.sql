-- What responses go on from: items that are referred to by their ids, and conversations.

-- Which stored response an item came with, or came of.
CREATE TABLE response_item (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    response_id TEXT NOT NULL REFERENCES response(id) ON DELETE CASCADE,
    PRIMARY KEY (workspace_id, id)
);

CREATE INDEX response_item_response ON response_item(response_id);

CREATE TABLE conversation (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE INDEX conversation_workspace ON conversation(workspace_id);

CREATE TABLE conversation_item (
    conversation_id TEXT NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    number INTEGER NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (conversation_id, id)
);

CREATE UNIQUE INDEX conversation_item_order ON conversation_item(conversation_id, number);
CREATE INDEX conversation_item_id ON conversation_item(id);
