-- The operations that were enqueued into a sequence. A table of its own, so that what is in none pays nothing for it.
--
-- While an operation waits for its turn, its row in `operation` has no `until_ms`: what is due is then found without
-- reading through a line of waiting ones, however long it is.
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

-- The last position of a sequence, and an operator's list of one.
CREATE INDEX sequenced_position ON sequenced (account, sequence, position);
-- The first that holds a sequence.
CREATE UNIQUE INDEX sequenced_holds ON sequenced (account, sequence, position) WHERE holds = 1;
-- Whose turn it is.
CREATE UNIQUE INDEX sequenced_turn ON sequenced (account, sequence) WHERE turn = 1;
-- An operator's list of a sequence in whichever account.
CREATE INDEX sequenced_name ON sequenced (sequence);
