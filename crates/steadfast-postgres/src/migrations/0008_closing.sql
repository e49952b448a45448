-- How often somebody has changed what the store is there for. A row of its own, which nothing else writes: whoever reads
-- from one snapshot to its end locks it, and is in nobody's way.
CREATE TABLE {schema}.closing (
    sole  boolean PRIMARY KEY DEFAULT true CHECK (sole),
    times bigint  NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {schema}.closing (times) VALUES (0);

-- Nothing is put into the outbox of a store that is closed: nobody would admit it. Whoever closes the store locks the
-- outbox before, and so waits for each transaction that has put something into it. One that comes later waits at its
-- INSERT, after it has asked: so it is asked again here. A statement of a trigger sees what was committed by then (READ
-- COMMITTED). With a snapshot it sees the store of long ago, and the lock fails if that has changed.
CREATE FUNCTION {schema}.check_outbox_open() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM FROM {schema}.closing FOR SHARE;
    END IF;
    IF EXISTS (SELECT FROM {schema}.purged WHERE stage <> 0) THEN
        RAISE EXCEPTION 'steadfast outbox: the store is closed: its records are copied to another store, which takes the calls';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER open AFTER INSERT ON {schema}.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.check_outbox_open();
