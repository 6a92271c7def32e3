-- What whole an entry belongs to, such as a repository: a query can be narrowed to some, and it is removed as one.
ALTER TABLE search_entry ADD COLUMN collection TEXT NOT NULL DEFAULT '';

-- Most entries belong to none and are not in it.
CREATE INDEX search_entry_collection ON search_entry (shelf, collection) WHERE collection <> '';
