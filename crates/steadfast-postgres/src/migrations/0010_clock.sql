-- What time the store believes, with which it doubts its own server's clock: one that is days ahead for a moment, or that
-- of a server which took over, would let every record expire at once. See `Notes` in `operation/record/notes.rs`, whose
-- rules these are; a test holds the two together.
CREATE TABLE {schema}.clock (
    sole            boolean PRIMARY KEY DEFAULT true CHECK (sole),
    believed_ms     bigint, -- null before the first command
    doubted_from_ms bigint, -- the first and the last of the times that are doubted; null while none is
    doubted_to_ms   bigint
) WITH (fillfactor = 10);
INSERT INTO {schema}.clock DEFAULT VALUES;

-- Takes in the time of a command, and gives it with the time that is believed. It is written down once a minute, and when
-- a doubt begins or ends. Nobody waits for the row: whoever has locked it writes the same.
CREATE FUNCTION {schema}.see_time(OUT now_ms bigint, OUT believed_ms bigint) LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    differ CONSTANT bigint := 300000;  -- how far clocks may differ
    doubt  CONSTANT bigint := 3600000; -- for how long a time is doubted
    minute CONSTANT bigint := 60000;   -- what need not be written down
    noted record;
    since_ms bigint;
    last_ms bigint;
    must_write boolean;
BEGIN
    now_ms := {schema}.store_now();
    FOR turn IN 1..2 LOOP
        IF turn = 1 THEN
            SELECT c.believed_ms, c.doubted_from_ms, c.doubted_to_ms INTO noted FROM {schema}.clock c;
        ELSE
            SELECT c.believed_ms, c.doubted_from_ms, c.doubted_to_ms INTO noted FROM {schema}.clock c
                FOR UPDATE SKIP LOCKED;
            EXIT WHEN NOT FOUND;
        END IF;
        believed_ms := noted.believed_ms;
        since_ms := noted.doubted_from_ms;
        last_ms := noted.doubted_to_ms;
        must_write := true;
        IF believed_ms IS NULL OR {schema}.later(now_ms, differ) < believed_ms THEN
            -- The first command, or the earlier of two clocks.
            believed_ms := now_ms;
            since_ms := NULL;
            last_ms := NULL;
        ELSIF now_ms <= {schema}.later(believed_ms, differ) THEN
            must_write := since_ms IS NOT NULL OR now_ms - believed_ms >= minute;
            believed_ms := greatest(believed_ms, now_ms);
            since_ms := NULL;
            last_ms := NULL;
        ELSIF since_ms IS NULL OR {schema}.later(now_ms, differ) < last_ms THEN
            since_ms := now_ms;
            last_ms := now_ms;
        ELSIF now_ms > {schema}.later(last_ms, doubt) THEN
            -- Another clock, or an idle time: nobody has seen the earlier of the two for an hour either.
            believed_ms := greatest(believed_ms, last_ms - doubt);
            since_ms := now_ms;
            last_ms := now_ms;
        ELSIF now_ms >= {schema}.later(since_ms, doubt) THEN
            believed_ms := now_ms;
            since_ms := NULL;
            last_ms := NULL;
        ELSE
            must_write := now_ms - last_ms >= minute;
            last_ms := greatest(last_ms, now_ms);
        END IF;
        EXIT WHEN NOT must_write OR current_setting('transaction_read_only') = 'on'
            OR EXISTS (SELECT FROM {schema}.purged p WHERE p.stage <> 0);
        IF turn = 2 THEN
            UPDATE {schema}.clock c SET believed_ms = see_time.believed_ms, doubted_from_ms = since_ms,
                doubted_to_ms = last_ms;
        END IF;
    END LOOP;
END $$;

-- A server that crashes forgets what it has acknowledged where `synchronous_commit` is off: a claim that is forgotten is a
-- second send. That alone is overridden, until the end of the transaction that writes. Where `local` and the rest are set,
-- somebody has said what a commit waits for.
CREATE FUNCTION {schema}.commit_durably() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit', true) = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER durable AFTER INSERT OR UPDATE OR DELETE ON {schema}.operation
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.commit_durably();
CREATE TRIGGER durable AFTER INSERT OR UPDATE OR DELETE ON {schema}.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.commit_durably();
CREATE TRIGGER durable AFTER INSERT OR UPDATE OR DELETE ON {schema}.purged
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.commit_durably();

-- What writes in the owner's name is for those who are granted it.
REVOKE ALL ON FUNCTION {schema}.see_time(), {schema}.hold_purged() FROM PUBLIC;

-- What an account, a key and a sequence are called is compared byte by byte, whatever the database's collation is.
ALTER TABLE {schema}.outbox
    ALTER COLUMN namespace TYPE text COLLATE "C",
    ALTER COLUMN vendor TYPE text COLLATE "C",
    ALTER COLUMN account TYPE text COLLATE "C",
    ALTER COLUMN method TYPE text COLLATE "C",
    ALTER COLUMN path TYPE text COLLATE "C",
    ALTER COLUMN key TYPE text COLLATE "C",
    ALTER COLUMN headers TYPE text COLLATE "C",
    ALTER COLUMN content_type TYPE text COLLATE "C",
    ALTER COLUMN on_unknown TYPE text COLLATE "C",
    ALTER COLUMN redact TYPE text COLLATE "C",
    ALTER COLUMN supersedes TYPE text COLLATE "C",
    ALTER COLUMN on_dead_letter TYPE text COLLATE "C",
    ALTER COLUMN origin TYPE text COLLATE "C",
    ALTER COLUMN rejected TYPE text COLLATE "C";

-- The sequences that a rejected row holds. Nearly always empty.
CREATE INDEX outbox_holding ON {schema}.outbox (namespace, vendor, account, sequence, number)
    WHERE rejected_at_ms IS NOT NULL AND on_dead_letter = 'hold' AND sequence IS NOT NULL;
