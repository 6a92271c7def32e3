-- What a background response told so far, several events in a row; `first` is the number of the first.
CREATE TABLE response_event (
    response_id TEXT NOT NULL REFERENCES response(id) ON DELETE CASCADE,
    first INTEGER NOT NULL,
    events TEXT NOT NULL,
    PRIMARY KEY (response_id, first)
);
