-- A row can forbid a repeat. Until now `park` was what a row said that chose nothing, and such a row says nothing from here on.
CREATE TABLE steadfast_outbox_new (
    number         INTEGER PRIMARY KEY AUTOINCREMENT, -- no number twice: a dispatcher that stood still names a row by it
    namespace      TEXT    NOT NULL DEFAULT 'default',
    vendor         TEXT    NOT NULL,
    account        TEXT    NOT NULL, -- as the vendor's adapter names it
    method         TEXT    NOT NULL DEFAULT 'POST' CHECK (method <> '' AND method NOT GLOB '*[^A-Z-]*'),
    path           TEXT    NOT NULL CHECK (substr(path, 1, 1) = '/'), -- below the adapter's base URL, with the query
    key            TEXT    NOT NULL CHECK (length(key) BETWEEN 1 AND 255 AND key NOT GLOB '*[^ -~]*'),
    headers        TEXT    NOT NULL DEFAULT '{}' CHECK (json_type(headers) = 'object'), -- never a secret
    content_type   TEXT    DEFAULT 'application/json', -- of a body, unless headers name one
    body           ANY     CHECK (typeof(body) IN ('null', 'text', 'blob')),
    due_ms         INTEGER, -- null is now; milliseconds since the Unix epoch, like the times below
    on_unknown     TEXT    CHECK (on_unknown IN ('by_method', 'park', 'resend')), -- null: as the route says
    keep_ms        INTEGER CHECK (keep_ms > 0),
    redact         TEXT    CHECK (json_type(redact) = 'array'), -- names of fields that are never shown
    supersedes     TEXT    CHECK (length(supersedes) BETWEEN 1 AND 255 AND supersedes NOT GLOB '*[^ -~]*'),
    sequence       TEXT    CHECK (length(sequence) BETWEEN 1 AND 255 AND sequence NOT GLOB '*[^ -~]*'),
    on_dead_letter TEXT    NOT NULL DEFAULT 'hold' CHECK (on_dead_letter IN ('hold', 'skip')), -- of the sequence
    -- Not unixepoch('subsec'): the writer's SQLite may be an older one.
    enqueued_at_ms INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- Not for who enqueues.
    origin         TEXT,    -- scheme, host and port of the writer's base URL, if it was a client
    sealed         BLOB,    -- path with query, headers and body, by a process that has the key
    rejected_at_ms INTEGER, -- null while it waits
    rejected       TEXT CHECK ((rejected IS NULL) = (rejected_at_ms IS NULL)) -- why
) STRICT;
INSERT INTO steadfast_outbox_new SELECT * FROM steadfast_outbox;
UPDATE steadfast_outbox_new SET on_unknown = NULL WHERE on_unknown = 'park';
DELETE FROM sqlite_sequence WHERE name = 'steadfast_outbox_new';
INSERT INTO sqlite_sequence (name, seq)
SELECT 'steadfast_outbox_new', seq FROM sqlite_sequence WHERE name = 'steadfast_outbox';
DROP TABLE steadfast_outbox;
ALTER TABLE steadfast_outbox_new RENAME TO steadfast_outbox;


-- What a dispatcher looks for. What was rejected costs it nothing.
CREATE INDEX steadfast_outbox_waiting ON steadfast_outbox (namespace, vendor, account, number)
WHERE rejected_at_ms IS NULL;

-- What lies before a row in its sequence, also if it was rejected.
CREATE INDEX steadfast_outbox_sequence ON steadfast_outbox (namespace, vendor, account, sequence, number)
WHERE sequence IS NOT NULL;
-- The sequences that a rejected row holds. Nearly always empty.
CREATE INDEX steadfast_outbox_holding ON steadfast_outbox (namespace, vendor, account, sequence, number)
WHERE rejected_at_ms IS NOT NULL AND on_dead_letter = 'hold' AND sequence IS NOT NULL;
CREATE INDEX steadfast_outbox_key ON steadfast_outbox (key, namespace, vendor, account);
CREATE INDEX steadfast_outbox_supersedes ON steadfast_outbox (supersedes) WHERE supersedes IS NOT NULL;

CREATE TRIGGER steadfast_outbox_closed BEFORE INSERT ON steadfast_outbox
WHEN EXISTS (SELECT 1 FROM purged WHERE json_extract(standing, '$.stage') <> 'open')
BEGIN
    SELECT RAISE(ABORT, 'the store is closed: its records were copied to another store, which takes the calls, or it is a copy itself; see steadfast here');
END;
