-- The session that kept a given vector: what an agent saved is told by its session's result.
ALTER TABLE collection_vector ADD COLUMN session_id TEXT;
