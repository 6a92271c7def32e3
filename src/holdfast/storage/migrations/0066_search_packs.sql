-- Copies of a big workspace's rows in the form that memory has, so that the first search after a start need not read each
-- row. Entries are packed in the order of their changes: what changes or comes later stands in a later pack, or is read from
-- its row, and replaces what was packed of it before. `change` and `entry` are those of the last one packed.
-- only: sqlite
CREATE TABLE search_pack (
    shelf INTEGER NOT NULL REFERENCES search_shelf(number) ON DELETE CASCADE,
    form TEXT NOT NULL,
    place INTEGER NOT NULL,
    change INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    words INTEGER NOT NULL,
    names TEXT NOT NULL,
    arrays BLOB NOT NULL,
    PRIMARY KEY (shelf, form, place)
);
