-- The last words of the dispatchers that deliver from this file, for as long as they count.
CREATE TABLE heartbeat (
    account    TEXT    NOT NULL, -- namespace, vendor and account
    dispatcher TEXT    NOT NULL,
    says       TEXT    NOT NULL,
    at_ms      INTEGER NOT NULL,
    until_ms   INTEGER NOT NULL,
    PRIMARY KEY (account, dispatcher)
) STRICT, WITHOUT ROWID;
