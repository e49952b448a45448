-- The operations that were enqueued into a sequence. A table of its own, so that what is in none pays nothing for it.
--
-- While an operation waits for its turn, its row in `operation` has no `wake_ms`: what is due is then found without
-- reading through a line of waiting ones, however long it is. Whoever gets the turn is looked at from that moment on, or
-- from when it is due, if that is later.
CREATE TABLE {schema}.sequenced (
    position bigint   NOT NULL,                -- in the order of the first claims
    slot     smallint NOT NULL,                -- the row of `sequence_lock` that stands for its sequence
    skips    boolean  NOT NULL,                -- whether its dead letter lets the next one go
    holds    boolean  NOT NULL,                -- whether those behind it wait for it
    turn     boolean  NOT NULL,                -- whether it is its turn
    scope    text     COLLATE "C" NOT NULL,
    key      text     COLLATE "C" NOT NULL,
    account  text     COLLATE "C" NOT NULL,    -- namespace, vendor and account: the beginning of the scope
    sequence text     COLLATE "C",             -- null once its key is used again outside of any sequence
    PRIMARY KEY (scope, key)
);

-- The last position of a sequence.
CREATE INDEX sequenced_position ON {schema}.sequenced (account, sequence, position);
-- The first that holds a sequence.
CREATE UNIQUE INDEX sequenced_holds ON {schema}.sequenced (account, sequence, position) WHERE holds;
-- Whose turn it is.
CREATE UNIQUE INDEX sequenced_turn ON {schema}.sequenced (account, sequence) WHERE turn;
-- An operator's list of a sequence in whichever account.
CREATE INDEX sequenced_name ON {schema}.sequenced (sequence);

-- Whoever moves an operation of a sequence locks one of these rows first: what enters, holds and leaves one sequence then
-- does so one after the other. A sequence's row is found by a hash of its name. Several sequences may share one, which
-- costs no more than a wait for a short transaction; there is nothing to add for a new sequence, or to remove.
CREATE TABLE {schema}.sequence_lock (
    slot smallint PRIMARY KEY
);
INSERT INTO {schema}.sequence_lock (slot) SELECT generate_series(0, 1023);
