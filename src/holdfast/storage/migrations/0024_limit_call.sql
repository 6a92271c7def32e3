-- Calls under a limit that holds over any stretch of time, not only from one full minute to the next.
CREATE TABLE limit_call (
    key TEXT NOT NULL,
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (key, at, number)
);
