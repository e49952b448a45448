-- Where the store is, as JSON, so that a copy of the database knows that it is one; null where nobody could tell. And
-- whether no request and no answer is in the clear, so that one which is was not written by a process with the key.
ALTER TABLE {schema}.purged
    ADD COLUMN place  text,
    ADD COLUMN sealed boolean NOT NULL DEFAULT false;

-- Notes the place in the owner's name: every process that opens the store may, and an app's role may not write the row
-- by itself. Nothing is changed where another process was faster.
CREATE FUNCTION {schema}.note_place(noted text, instead_of text) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE {schema}.purged SET place = noted WHERE place IS NOT DISTINCT FROM instead_of;
END $$;

-- Closes an open store that was opened elsewhere. Whoever reads from one snapshot to its end is told by the other table.
CREATE FUNCTION {schema}.displace(text) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE {schema}.closing SET times = times + 1;
    UPDATE {schema}.purged SET stage = 1, standing = $1 WHERE stage = 0;
END $$;

-- As before, in words that also fit a store that was opened elsewhere.
CREATE OR REPLACE FUNCTION {schema}.check_outbox_open() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM FROM {schema}.closing FOR SHARE;
    END IF;
    IF EXISTS (SELECT FROM {schema}.purged WHERE stage <> 0) THEN
        RAISE EXCEPTION 'steadfast outbox: the store is closed: its records were copied to another store, which takes the calls, or it is a copy itself; see steadfast here';
    END IF;
    RETURN NULL;
END $$;

-- As before. New is that a process without a key writes nothing into a store that is sealed: a record in the clear is
-- corrupt there.
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
    SELECT fence, stage, sealed INTO held FROM {schema}.purged;
    IF held.sealed AND EXISTS (SELECT FROM started WHERE seal IS NULL) THEN
        RAISE EXCEPTION 'the store is sealed, so that each process needs its key' USING ERRCODE = 'ST001';
    END IF;
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

-- Notes that the store is sealed if no record is in the clear, and says whether it is. Whoever asks for it has locked the
-- table of operations, so that none is written meanwhile. In the owner's name: an app may make a store that is sealed.
CREATE FUNCTION {schema}.note_sealed() RETURNS boolean LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE {schema}.purged SET sealed = true WHERE NOT sealed
        AND NOT EXISTS (SELECT FROM {schema}.request WHERE substr(request, 1, 1) <> '\x02'::bytea)
        AND NOT EXISTS (SELECT FROM {schema}.outcome WHERE substr(answer, 1, 1) <> '\x02'::bytea);
    RETURN (SELECT sealed FROM {schema}.purged);
END $$;

-- Whoever may only look changes nothing of this.
REVOKE ALL ON FUNCTION {schema}.note_place(text, text), {schema}.displace(text), {schema}.note_sealed() FROM PUBLIC;
