-- 1 if the request has headers that carry secrets: version 0.1 stored what it was given. The flags of the rows that are
-- there are set by the program, which can read requests.
ALTER TABLE operation ADD COLUMN secrets INTEGER NOT NULL DEFAULT 0;
-- Empty, but for such rows. No update of a call writes its column, so that SQLite leaves it alone.
CREATE INDEX operation_secrets ON operation (secrets) WHERE secrets = 1;
