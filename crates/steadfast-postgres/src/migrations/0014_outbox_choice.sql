-- A row can forbid a repeat. Until now `park` was what a row said that chose nothing, and such a row says nothing from here on.
-- Null: as the route says.
ALTER TABLE {schema}.outbox ALTER COLUMN on_unknown DROP DEFAULT, ALTER COLUMN on_unknown DROP NOT NULL,
    DROP CONSTRAINT outbox_on_unknown_check,
    ADD CONSTRAINT outbox_on_unknown_check CHECK (on_unknown IN ('by_method', 'park', 'resend'));
UPDATE {schema}.outbox SET on_unknown = NULL WHERE on_unknown = 'park';

CREATE OR REPLACE FUNCTION {schema}.put_in_outbox(
    namespace text, vendor text, account text, method text, path text, key text, headers text, content_type text,
    body bytea, sealed bytea, due_ms bigint, on_unknown text, keep_ms bigint, redact text, supersedes text,
    origin text, sequence text, on_dead_letter text
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text;
    row_number bigint;
    told_at_ms bigint;
BEGIN
    problem := CASE
        WHEN coalesce(namespace, '') = '' THEN 'namespace: give the client''s, such as default'
        WHEN coalesce(vendor, '') = '' THEN 'vendor: give the name of the client''s adapter, such as stripe'
        WHEN coalesce(account, '') = '' THEN 'account: give the adapter''s account, such as live, or leave it out for default'
        WHEN method IS NULL OR method !~ '^[A-Z-]+$' THEN 'method: give one in capital letters, such as POST'
        WHEN path IS NULL OR path !~ '^/' THEN 'path: begin it with /; it is below the adapter''s base URL'
        WHEN key IS NULL OR key COLLATE "C" !~ '^[ -~]{1,255}$' THEN 'key: give 1 to 255 printable ASCII characters that name the operation, such as order-42/charge'
        WHEN supersedes COLLATE "C" !~ '^[ -~]{1,255}$' THEN 'supersedes: give the key of the operation that is started over'
        WHEN headers IS NULL OR jsonb_typeof(headers::jsonb) <> 'object' THEN 'headers: give a JSON object of names and texts'
        WHEN jsonb_typeof(redact::jsonb) <> 'array' THEN 'redact: give a JSON array of names'
        WHEN on_unknown NOT IN ('by_method', 'park', 'resend') THEN 'on_unknown: give by_method, park or resend'
        WHEN keep_ms <= 0 THEN 'keep: give a time above zero'
        WHEN sequence COLLATE "C" !~ '^[ -~]{1,255}$' THEN 'sequence: give 1 to 255 printable ASCII characters, such as customer-7'
        WHEN on_dead_letter IS NULL OR on_dead_letter NOT IN ('hold', 'skip') THEN 'on_dead_letter: give hold or skip'
        WHEN due_ms < 0 THEN 'at: give a time after 1970'
    END;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'steadfast outbox: %', problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.outbox (namespace, vendor, account, method, path, key, headers, content_type, body, sealed,
        due_ms, on_unknown, keep_ms, redact, supersedes, origin, sequence, on_dead_letter)
    VALUES (namespace, vendor, account, method, path, key, headers, content_type, body, sealed,
        due_ms, on_unknown, keep_ms, redact, supersedes, origin, sequence, on_dead_letter)
    RETURNING outbox.number INTO row_number;
    -- The dispatchers of all processes hear of it when it is committed. The server commits those that notify one after the
    -- other. So whoever finds a row that was written a moment ago, and told of, leaves it at that: after a look that found
    -- rows the next look comes soon.
    IF coalesce(due_ms, 0) <= {schema}.store_now() + 5000
        AND coalesce(current_setting('steadfast.notify', true), '') <> 'off'
    THEN
        SELECT CASE WHEN coalesce(o.due_ms, 0) <= o.enqueued_at_ms + 5000 THEN o.enqueued_at_ms END
            INTO told_at_ms FROM {schema}.outbox o
            WHERE o.namespace = put_in_outbox.namespace AND o.vendor = put_in_outbox.vendor
            AND o.account = put_in_outbox.account AND o.rejected_at_ms IS NULL AND o.number < row_number
            ORDER BY o.number DESC LIMIT 1;
        IF told_at_ms IS NULL OR abs({schema}.store_now() - told_at_ms) > 50 THEN
            PERFORM pg_notify('steadfast_' || btrim('{schema}', '"'), 'outbox');
        END IF;
    END IF;
    RETURN row_number;
END $$;

CREATE OR REPLACE FUNCTION {schema}.enqueue_bytes(
    vendor text, method text, path text, key text, body bytea, content_type text,
    account text DEFAULT 'default', query text DEFAULT NULL, headers jsonb DEFAULT '{}', at timestamptz DEFAULT NULL,
    after interval DEFAULT NULL, on_unknown text DEFAULT NULL, keep interval DEFAULT NULL, redact text[] DEFAULT NULL,
    supersedes text DEFAULT NULL, namespace text DEFAULT 'default', sequence text DEFAULT NULL,
    on_dead_letter text DEFAULT 'hold'
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF body IS NOT NULL AND coalesce(content_type, '') = '' THEN
        RAISE EXCEPTION 'steadfast outbox: content_type: say what the body is, such as application/x-www-form-urlencoded'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN {schema}.put_in_outbox(namespace, vendor, account, method,
        CASE WHEN query <> '' THEN path || CASE WHEN strpos(path, '?') > 0 THEN '&' ELSE '?' END || query ELSE path END,
        key, headers::text, content_type, body, NULL, {schema}.due_of(at, after), on_unknown,
        floor(extract(epoch FROM keep) * 1000)::bigint, to_jsonb(redact)::text, supersedes, NULL, sequence, on_dead_letter);
END $$;

CREATE OR REPLACE FUNCTION {schema}.enqueue_text(
    vendor text, method text, path text, key text, body text, content_type text,
    account text DEFAULT 'default', query text DEFAULT NULL, headers jsonb DEFAULT '{}', at timestamptz DEFAULT NULL,
    after interval DEFAULT NULL, on_unknown text DEFAULT NULL, keep interval DEFAULT NULL, redact text[] DEFAULT NULL,
    supersedes text DEFAULT NULL, namespace text DEFAULT 'default', sequence text DEFAULT NULL,
    on_dead_letter text DEFAULT 'hold'
) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.enqueue_bytes(vendor, method, path, key, convert_to(body, 'UTF8'), content_type, account, query,
        headers, at, after, on_unknown, keep, redact, supersedes, namespace, sequence, on_dead_letter)
$$;

CREATE OR REPLACE FUNCTION {schema}.enqueue(
    vendor text, method text, path text, key text, body jsonb DEFAULT NULL,
    account text DEFAULT 'default', query text DEFAULT NULL, headers jsonb DEFAULT '{}', at timestamptz DEFAULT NULL,
    after interval DEFAULT NULL, on_unknown text DEFAULT NULL, keep interval DEFAULT NULL, redact text[] DEFAULT NULL,
    supersedes text DEFAULT NULL, namespace text DEFAULT 'default', sequence text DEFAULT NULL,
    on_dead_letter text DEFAULT 'hold'
) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.enqueue_bytes(vendor, method, path, key, convert_to(body::text, 'UTF8'), 'application/json', account,
        query, headers, at, after, on_unknown, keep, redact, supersedes, namespace, sequence, on_dead_letter)
$$;
