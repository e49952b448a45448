-- Times are milliseconds since the Unix epoch.

-- One row for each operation.
CREATE TABLE operation (
    number           INTEGER PRIMARY KEY, -- in the order of the first claims
    scope            TEXT    NOT NULL,
    key              TEXT    NOT NULL,
    vendor           TEXT    NOT NULL,    -- the scope's namespace and vendor
    phase            INTEGER NOT NULL CHECK (phase BETWEEN 1 AND 6), -- in progress, scheduled, succeeded, refused, dead, resolved
    until_ms         INTEGER,             -- end of the lease, next attempt or expiry; null for an unresolved dead letter
    fence            INTEGER NOT NULL,
    first_fence      INTEGER NOT NULL,    -- the fence that this life of the key began with
    attempts         INTEGER NOT NULL,
    lookups          INTEGER NOT NULL DEFAULT 0,
    resends_left     INTEGER NOT NULL,    -- how many more sends may be a second effect
    effect           INTEGER NOT NULL,    -- 0 none, 1 unknown, 2 applied
    unknown_since_ms INTEGER,             -- the latest end of a send of unknown effect; null while there is none
    claimed_at_ms    INTEGER NOT NULL,
    updated_at_ms    INTEGER NOT NULL,
    attempt_max_ms   INTEGER NOT NULL,    -- the longest time that one attempt of the holder may take
    retention_ms     INTEGER NOT NULL,
    vendor_clock_ms  INTEGER,             -- the vendor's clock less ours at the first claim; null if it was not known
    on_unknown       INTEGER NOT NULL,    -- 0 by method, 1 resend, 2 dead letter
    detail           INTEGER,             -- succeeded: 1 if reconciled; refused: which refusal; dead: which reason
    status           INTEGER,             -- of the answer, if there is one
    fingerprint      BLOB    NOT NULL,
    wire_key         TEXT    NOT NULL,
    redact           TEXT,                -- names of fields that are never shown, a JSON array; null for none
    predecessor      TEXT,                -- the key of the operation that this one starts over; null for none
    first_scope      TEXT,                -- the scope of the first claim, if it was adopted by another since; null if not
    holder           TEXT,                -- the process that holds it, or held it last: for people alone
    resolved         TEXT,                -- a person's resolution, as JSON
    -- Last, so that a statement that reads the columns above need not read through these.
    request          BLOB    NOT NULL,
    answer           BLOB,
    reports          TEXT    NOT NULL DEFAULT '' -- of each attempt, a line of JSON
) STRICT;

-- The arbiter of claims.
CREATE UNIQUE INDEX operation_name ON operation (scope, key);
-- The two indexes below are as narrow as they can be: every call writes to each, and vendor and times in them
-- cost a tenth of the calls a second. The first is for open operations, the second for a purge and for the dead
-- letters that wait for a person, which are those without an end.
CREATE INDEX operation_open ON operation (phase, until_ms) WHERE phase < 3;
CREATE INDEX operation_ended ON operation (until_ms) WHERE phase > 2;
-- The index of a dispatcher that takes from its accounts in turn: by namespace, vendor and account, which are
-- the beginning of the scope. A call that is sent at once is never in it, and pays nothing for it: a column
-- would be computed for each row that is written.
CREATE INDEX operation_due ON operation (
    substr(scope, 1, length(vendor) + instr(substr(scope, length(vendor) + 2), '/')), until_ms
) WHERE phase = 2 AND until_ms IS NOT NULL;

-- Ended operations, for programs in other languages. A name that is missing has not ended, or its record was
-- purged.
CREATE VIEW steadfast_ended AS SELECT scope, key,
    CASE phase WHEN 3 THEN 'succeeded' WHEN 4 THEN 'refused' WHEN 5 THEN 'dead' ELSE 'resolved' END AS outcome,
    CASE effect WHEN 0 THEN 'none' WHEN 1 THEN 'unknown' ELSE 'applied' END AS effect,
    status, updated_at_ms AS ended_at_ms
FROM operation WHERE phase > 2;

-- Operations that were enqueued into a sequence. It is a table of its own, so that other operations pay nothing
-- for it.
--
-- While an operation waits for its turn, its row in `operation` has no `until_ms`: due operations are then
-- found without reading a long line of waiting ones.
CREATE TABLE sequenced (
    operation INTEGER PRIMARY KEY, -- operation.number
    account   TEXT    NOT NULL,    -- namespace, vendor and account: the beginning of the scope
    sequence  TEXT    NOT NULL,
    position  INTEGER NOT NULL,    -- in the order of the first claims
    skips     INTEGER NOT NULL,    -- 1 if its dead letter lets the next one go
    holds     INTEGER NOT NULL,    -- 1 if those behind it wait for it
    turn      INTEGER NOT NULL,    -- 1 if it is its turn
    at_ms     INTEGER              -- while it is scheduled: for when
) STRICT;

-- Finds the last position of a sequence, and an operator's list of one.
CREATE INDEX sequenced_position ON sequenced (account, sequence, position);
-- Finds the first operation that holds a sequence.
CREATE UNIQUE INDEX sequenced_holds ON sequenced (account, sequence, position) WHERE holds = 1;
-- Finds the operation that has the turn.
CREATE UNIQUE INDEX sequenced_turn ON sequenced (account, sequence) WHERE turn = 1;
-- Finds the operations of a sequence in all accounts, for an operator's list.
CREATE INDEX sequenced_name ON sequenced (sequence);

-- The audit record: operators' actions. It outlives the operations.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    scope  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    action TEXT    NOT NULL, -- as JSON
    by     TEXT    NOT NULL,
    why    TEXT    NOT NULL,
    at_ms  INTEGER NOT NULL,
    before INTEGER NOT NULL, -- phase
    after  INTEGER NOT NULL  -- phase
) STRICT;
CREATE INDEX audit_operation ON audit (scope, key);

-- Notes of the store beside its records, in one row that every claim needs.
CREATE TABLE store_state (
    purged_fence    INTEGER NOT NULL, -- the highest of any row that was removed: a key's first claim starts above it
    believed_ms     INTEGER, -- what time it is, as far as the store believes it; null before the first command
    doubted_from_ms INTEGER, -- the first and the last of the times that it doubts; null while there is none
    doubted_to_ms   INTEGER,
    copy_state      TEXT,    -- whether the file is in use or its records go to another store, as JSON; null for in use
    place           TEXT,    -- where the store is, as JSON, so that a copy knows that it is one; null if not known
    sealed          INTEGER NOT NULL -- 1 if no request and no answer is in the clear: one that is is then corrupt
) STRICT;
INSERT INTO store_state (purged_fence, sealed) VALUES (0, 0);

-- Keys that any row may be sealed with. A key is here before the first row that it seals, so that this table
-- shows if a process can read the file.
CREATE TABLE seal_key (
    id BLOB PRIMARY KEY -- the first 8 bytes of a hash of the key, see SealKeyId
) STRICT, WITHOUT ROWID;

-- Terms that clients have registered for their accounts, so that two services with different terms get an
-- error.
CREATE TABLE account (
    path  TEXT PRIMARY KEY, -- namespace, vendor and account
    terms TEXT NOT NULL     -- as JSON
) STRICT, WITHOUT ROWID;

-- The last heartbeat of each dispatcher that delivers from this file, until it expires.
CREATE TABLE heartbeat (
    account    TEXT    NOT NULL, -- namespace, vendor and account
    dispatcher TEXT    NOT NULL,
    status     TEXT    NOT NULL, -- as the dispatcher writes it
    at_ms      INTEGER NOT NULL,
    until_ms   INTEGER NOT NULL,
    PRIMARY KEY (account, dispatcher)
) STRICT, WITHOUT ROWID;

-- Calls that wait for admission. A caller writes a row in a transaction of its own; it is removed in the commit
-- that records the operation. The checks fail in the caller's transaction, where a mistake is seen; any other
-- mistake is found later, and the row is rejected.
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
    due_ms         INTEGER, -- null is now
    on_unknown     TEXT    CHECK (on_unknown IN ('by_method', 'dead_letter', 'resend')), -- null: as the route says
    retention_ms   INTEGER CHECK (retention_ms > 0),
    redact         TEXT    CHECK (json_type(redact) = 'array'), -- names of fields that are never shown
    supersedes     TEXT    CHECK (length(supersedes) BETWEEN 1 AND 255 AND supersedes NOT GLOB '*[^ -~]*'),
    sequence       TEXT    CHECK (length(sequence) BETWEEN 1 AND 255 AND sequence NOT GLOB '*[^ -~]*'),
    on_dead_letter TEXT    NOT NULL DEFAULT 'hold' CHECK (on_dead_letter IN ('hold', 'skip')), -- of the sequence
    -- Not unixepoch('subsec'): the writer's SQLite may be an older one.
    enqueued_at_ms INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    -- The store's own: not for callers.
    origin         TEXT,    -- scheme, host and port of the writer's base URL, if it was a client
    sealed         BLOB,    -- path with query, headers and body, by a process that has the key
    rejected_at_ms INTEGER, -- null while it waits
    rejected       TEXT CHECK ((rejected IS NULL) = (rejected_at_ms IS NULL)) -- why
) STRICT;

-- The index of a dispatcher. Rejected rows are not in it.
CREATE INDEX steadfast_outbox_waiting ON steadfast_outbox (namespace, vendor, account, number)
WHERE rejected_at_ms IS NULL;
-- Finds the earlier rows of a sequence, also rejected ones.
CREATE INDEX steadfast_outbox_sequence ON steadfast_outbox (namespace, vendor, account, sequence, number)
WHERE sequence IS NOT NULL;
-- Finds the sequences that a rejected row holds. Nearly always empty.
CREATE INDEX steadfast_outbox_holding ON steadfast_outbox (namespace, vendor, account, sequence, number)
WHERE rejected_at_ms IS NOT NULL AND on_dead_letter = 'hold' AND sequence IS NOT NULL;
-- Finds the rows of a key: waiting ones, for a call under it that is refused before its claim, and rejected
-- ones. The key comes first: a purge looks for the rows of a key in all accounts, and for those that supersede
-- it. It spares its record.
CREATE INDEX steadfast_outbox_key ON steadfast_outbox (key, namespace, vendor, account);
CREATE INDEX steadfast_outbox_supersedes ON steadfast_outbox (supersedes) WHERE supersedes IS NOT NULL;

-- No dispatcher would admit the row. The error fails its writer's transaction, so that no order is committed
-- without its call.
CREATE TRIGGER steadfast_outbox_closed BEFORE INSERT ON steadfast_outbox
WHEN EXISTS (SELECT 1 FROM store_state WHERE json_extract(copy_state, '$.stage') <> 'open')
BEGIN
    SELECT RAISE(ABORT, 'the store is closed: its records were copied to another store, which takes the calls, or it is a copy itself; see steadfast here');
END;
