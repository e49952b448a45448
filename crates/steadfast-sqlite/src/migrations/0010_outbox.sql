-- Calls that wait to be taken on record. Whoever asks for one writes it in a transaction of its own; it is removed in the
-- commit that records the operation. The checks refuse a mistake in the caller's transaction, where somebody hears of
-- it; what they cannot see is found later, and the row is rejected.
CREATE TABLE steadfast_outbox (
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
    on_unknown     TEXT    NOT NULL DEFAULT 'park' CHECK (on_unknown IN ('park', 'resend')),
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

-- What a dispatcher looks for. What was rejected costs it nothing.
CREATE INDEX steadfast_outbox_waiting ON steadfast_outbox (namespace, vendor, account, number)
WHERE rejected_at_ms IS NULL;

-- What lies before a row in its sequence, also if it was rejected.
CREATE INDEX steadfast_outbox_sequence ON steadfast_outbox (namespace, vendor, account, sequence, number)
WHERE sequence IS NOT NULL;

-- Nobody would admit it. Its writer is to hear of it, and not to commit an order whose call stays behind.
CREATE TRIGGER steadfast_outbox_closed BEFORE INSERT ON steadfast_outbox
WHEN EXISTS (SELECT 1 FROM purged WHERE json_extract(standing, '$.stage') <> 'open')
BEGIN
    SELECT RAISE(ABORT, 'the store is closed: its records are copied to another store, which takes the calls');
END;
