-- Whether the store is in use or its records go to another one. In the row that every claim reads anyway: each write asks
-- for the stage in its own statement. Whoever changes it locks the table of operations before, so that no statement that
-- has found the store open writes after that.
ALTER TABLE {schema}.purged
    ADD COLUMN stage    smallint NOT NULL DEFAULT 0, -- 0 open, 1 leaving, 2 arriving, 3 moved
    ADD COLUMN standing text,                        -- the whole of it, as JSON; null for a store that was never copied
    ADD CHECK (stage = 0 OR standing IS NOT NULL);

-- The terms that clients have registered for their accounts, so that two services whose terms differ are told.
CREATE TABLE {schema}.account (
    path  text COLLATE "C" PRIMARY KEY, -- namespace, vendor and account
    terms text NOT NULL                 -- as JSON
);

-- Fails with a serialization failure if the row has changed since the transaction's snapshot, and keeps it as it is until
-- the transaction ends. In the owner's name: the role of an app may not lock the row by itself.
CREATE FUNCTION {schema}.hold_purged() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM FROM {schema}.purged FOR SHARE;
END $$;

-- As before. New is what it asks of a transaction that reads from one snapshot to its end, such as a service's own at
-- REPEATABLE READ: there, a statement of a trigger sees the fences of long ago. Only there is the row locked, because a
-- lock is a write, and all claims would queue for it. New is also that nothing begins in a store that is closed: a copy
-- says of itself that it is one.
CREATE OR REPLACE FUNCTION {schema}.check_first_fences() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lowest bigint := (SELECT min(fence) FROM started);
    held   record;
BEGIN
    IF lowest IS NULL THEN
        RETURN NULL;
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM {schema}.hold_purged();
    END IF;
    SELECT fence, stage INTO held FROM {schema}.purged;
    IF held.stage = 2 AND current_setting('steadfast.copies', true) = 'on' THEN
        RETURN NULL;
    END IF;
    IF held.stage <> 0 THEN
        RAISE EXCEPTION 'the store is closed: its records are copied' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF lowest <= held.fence THEN
        RAISE EXCEPTION 'a purge was faster' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END $$;
