-- Whether the file is in use or its records go to another store, as JSON; null for in use. In the row that every claim
-- needs anyway.
ALTER TABLE purged ADD COLUMN standing TEXT;

-- The terms that clients have registered for their accounts, so that two services whose terms differ are told.
CREATE TABLE account (
    path  TEXT PRIMARY KEY, -- namespace, vendor and account
    terms TEXT NOT NULL     -- as JSON
) STRICT, WITHOUT ROWID;
