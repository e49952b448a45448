-- One row for each operation. Times are milliseconds since the Unix epoch.
CREATE TABLE operation (
    number        INTEGER PRIMARY KEY, -- in the order of the first claims
    scope         TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    vendor        TEXT    NOT NULL,    -- the scope's namespace and vendor
    fingerprint   BLOB    NOT NULL,
    wire_key      TEXT    NOT NULL,
    phase         INTEGER NOT NULL CHECK (phase BETWEEN 1 AND 6), -- in progress, scheduled, succeeded, refused, dead, resolved
    until_ms      INTEGER,             -- end of lease, next attempt or expiry; null for an unresolved dead letter
    fence         INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    effect        INTEGER NOT NULL,    -- 0 none, 1 unknown
    claimed_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    keep_ms       INTEGER NOT NULL,
    on_unknown    INTEGER NOT NULL,    -- 0 park, 1 resend
    detail        INTEGER,             -- succeeded: 1 if reconciled; refused: which refusal; dead: which reason
    status        INTEGER,             -- of the answer, if there is one
    resolved      TEXT,                -- a person's word, as JSON
    -- Last, so that whoever reads the columns above need not read through these.
    request       BLOB    NOT NULL,
    answer        BLOB
) STRICT;

-- The arbiter of claims.
CREATE UNIQUE INDEX operation_name ON operation (scope, key);
-- Both below are as narrow as they can be: every call writes to each, and vendor and times in them cost a tenth of
-- the calls a second.
-- What a sweeper and a dispatcher look for.
CREATE INDEX operation_open ON operation (phase, until_ms) WHERE phase < 3;
-- What a purge looks for.
CREATE INDEX operation_ended ON operation (until_ms) WHERE phase > 2 AND until_ms IS NOT NULL;
-- What an operator looks for.
CREATE INDEX operation_dead ON operation (phase) WHERE phase = 5;

-- What each attempt met, as JSON. Purged with its operation.
CREATE TABLE evidence (
    number    INTEGER PRIMARY KEY,
    operation INTEGER NOT NULL,
    report    TEXT    NOT NULL
) STRICT;
CREATE INDEX evidence_operation ON evidence (operation);

-- What operators did. Outlives the operations.
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
