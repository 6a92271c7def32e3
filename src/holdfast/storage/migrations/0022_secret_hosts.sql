-- Where a secret may go, as a JSON list of hosts. NULL is a secret from before: the next start binds it to the hosts
-- that it is used with by then, and to none where nothing uses it.

ALTER TABLE secret ADD COLUMN hosts TEXT;
