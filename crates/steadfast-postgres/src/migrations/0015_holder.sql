-- The process that holds an operation, or held it last: for people alone. Null where none was noted.
ALTER TABLE {schema}.operation ADD COLUMN holder text;

-- As before, and takes the holders last. A process of the release before calls the other one, which names none.
CREATE FUNCTION {schema}.start_operations(
    text[], text[], text[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bytea,
    bigint[], boolean[], bytea[], text[], text[], bytea[], text[]
) RETURNS TABLE (is_closed text, in_scope text, of_key text, with_fence bigint, at_ms bigint) LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
    AS $$
BEGIN
    RETURN QUERY WITH clock AS MATERIALIZED (
        SELECT {schema}.store_now() AS now, set_config('lock_timeout', '100', true) AS lock_timeout
    ),
    started AS (
        INSERT INTO {schema}.operation (scope, key, vendor, phase, until_ms, wake_ms, fence, attempts, effect,
            claimed_at_ms, updated_at_ms, on_unknown, look_ups, resends_left, attempt_max_ms, vendor_clock_ms, seal,
            holder)
        SELECT c.scope, c.key, c.vendor, c.phase::smallint, {schema}.later(now, until_in),
            {schema}.later(now, until_in), {schema}.later(p.fence, 1), 0, 0, now, now, on_unknown::smallint, 0, resends,
            attempt_max, vendor_clock, $10, c.holder
        FROM clock, {schema}.purged p, unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $17)
            AS c (scope, key, vendor, phase, until_in, on_unknown, resends, attempt_max, vendor_clock, holder)
        WHERE p.sole AND p.stage = 0
        ON CONFLICT (scope, key) DO NOTHING RETURNING operation.scope, operation.key, operation.fence, updated_at_ms
    ),
    kept AS (
        INSERT INTO {schema}.request (scope, key, keep_ms, first_fence, secrets, fingerprint, wire_key, redact, request)
        SELECT c.scope, c.key, keep, s.fence, secrets, fingerprint, wire_key, redact, c.request
        FROM unnest($1, $2, $11, $12, $13, $14, $15, $16)
            AS c (scope, key, keep, secrets, fingerprint, wire_key, redact, request) JOIN started s USING (scope, key)
    )
    SELECT CASE WHEN p.stage > 0 THEN p.standing END, s.scope, s.key, s.fence, s.updated_at_ms
    FROM {schema}.purged p LEFT JOIN started s ON true WHERE p.sole;
END $$;

-- As before, and takes the holder last.
CREATE FUNCTION {schema}.take_due(
    bigint, text, text, bytea[], bigint, bigint, bigint, bigint, bigint, bigint, text
) RETURNS TABLE (
    is_closed text, now_ms bigint, last_ms bigint, found bigint, is_odd boolean, waited_ms bigint,
    c01 text, c02 text, c03 smallint, c04 bigint, c05 smallint, c06 smallint, c07 bigint, c08 bigint, c09 smallint,
    c10 bigint, c11 bigint, c12 smallint, c13 text, c14 bigint, c15 bigint, c16 bigint, c17 bigint, c18 bigint,
    c19 text, r01 bigint, r02 bigint, r03 bigint, r04 bytea, r05 text, r06 text, r07 text, r08 text, r09 text, r10 bytea
) LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
    SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off
    SET enable_hashjoin = off SET enable_sort = off
    AS $$
BEGIN
    RETURN QUERY WITH clock AS MATERIALIZED (
        SELECT now, {schema}.later(now, $7) AS lease, {schema}.later(now, $10) AS far
        FROM (SELECT {schema}.store_now() AS now) AS read
    ),
    due AS MATERIALIZED (
        SELECT o.scope, o.key, o.wake_ms, o.updated_at_ms, o.claimed_at_ms, o.unknown_since_ms, o.attempt_max_ms
        FROM {schema}.operation o
        WHERE o.phase < 3 AND o.phase = $1 AND o.vendor = $2
            AND substr(o.scope, 1, length($3) + 1) IN ($3 || '/', $3 || '>') AND (o.seal IS NULL OR o.seal = ANY ($4))
            AND o.wake_ms >= $5 AND o.wake_ms <= (SELECT {schema}.store_now())
            AND o.until_ms <= (SELECT {schema}.store_now())
            AND (SELECT p.stage FROM {schema}.purged p WHERE p.sole) = 0
        ORDER BY o.wake_ms LIMIT $6 FOR UPDATE SKIP LOCKED
    ),
    judged AS MATERIALIZED (
        SELECT d.scope, d.key, d.wake_ms, coalesce(d.updated_at_ms > c.far OR d.claimed_at_ms > c.far
            OR d.unknown_since_ms > {schema}.later(c.far, d.attempt_max_ms), false) AS is_odd
        FROM due d, clock c
    ),
    -- One that nobody of this life has held yet, or sent, and whose name was always this one, begins its life now.
    begun AS MATERIALIZED (
        SELECT j.scope, j.key, j.wake_ms, r.number, r.keep_ms, r.first_fence, r.fingerprint, r.wire_key, r.redact,
            r.predecessor, r.first_scope, r.request, (
                SELECT json_build_array(own.sequence, own.skips, own.position, ahead.scope, ahead.key, ahead.phase,
                    ahead.until_ms)::text
                FROM {schema}.sequenced own LEFT JOIN {schema}.sequenced other ON other.account = own.account
                    AND other.sequence = own.sequence AND other.turn AND (other.scope, other.key) <> (own.scope, own.key)
                    LEFT JOIN {schema}.operation ahead ON ahead.scope = other.scope AND ahead.key = other.key
                WHERE own.scope = r.scope AND own.key = r.key AND own.sequence IS NOT NULL
            ) AS place
        FROM judged j JOIN {schema}.request r ON r.scope = j.scope AND r.key = j.key WHERE NOT j.is_odd
    ),
    taken AS (
        UPDATE {schema}.operation o SET phase = 1, until_ms = c.lease, wake_ms = c.lease,
            fence = {schema}.later(o.fence, 1), updated_at_ms = c.now, detail = NULL, status = NULL, resolved = NULL,
            attempt_max_ms = CASE o.effect WHEN 1 THEN greatest($8, o.attempt_max_ms) ELSE $8 END,
            claimed_at_ms = CASE WHEN b.first_fence = o.fence AND o.attempts = 0 AND o.effect = 0
                AND b.first_scope IS NULL THEN c.now ELSE o.claimed_at_ms END,
            vendor_clock_ms = CASE WHEN b.first_fence = o.fence AND o.attempts = 0 AND o.effect = 0
                AND b.first_scope IS NULL THEN $9 ELSE o.vendor_clock_ms END,
            holder = $11
        FROM clock c, begun b WHERE o.scope = b.scope AND o.key = b.key
        RETURNING b.wake_ms AS waited, o.scope, o.key, o.phase, o.until_ms, o.detail, o.status, o.fence, o.attempts,
            o.effect, o.claimed_at_ms, o.updated_at_ms, o.on_unknown, o.resolved, o.unknown_since_ms, o.look_ups,
            o.resends_left, o.attempt_max_ms, o.vendor_clock_ms, o.holder, b.number, b.keep_ms, b.first_fence,
            b.fingerprint, b.wire_key, b.redact, b.predecessor, b.first_scope, b.place, b.request
    ),
    -- Whoever carries it on has no answer yet.
    unanswered AS (
        UPDATE {schema}.outcome a SET answer = NULL FROM taken t
        WHERE a.scope = t.scope AND a.key = t.key AND a.answer IS NOT NULL
    )
    SELECT CASE WHEN p.stage > 0 THEN p.standing END, c.now, (SELECT max(j.wake_ms) FROM judged j),
        (SELECT count(*) FROM judged), EXISTS (SELECT FROM judged j WHERE j.is_odd)
            OR CASE WHEN (SELECT count(*) FROM judged) < $6 THEN EXISTS (
                SELECT FROM (
                    SELECT o.scope, o.seal, o.updated_at_ms FROM {schema}.operation o WHERE o.phase < 3 AND o.phase = $1
                        AND o.vendor = $2 AND o.wake_ms > c.far ORDER BY o.wake_ms DESC LIMIT $6
                ) f WHERE f.updated_at_ms > c.far AND (f.seal IS NULL OR f.seal = ANY ($4))
                    AND substr(f.scope, 1, length($3) + 1) IN ($3 || '/', $3 || '>')
            ) ELSE false END,
        t.* FROM {schema}.purged p CROSS JOIN clock c LEFT JOIN taken t ON true WHERE p.sole;
END $$;

-- For a process of the release before: what it takes is no longer held by whom the row names.
CREATE OR REPLACE FUNCTION {schema}.take_due(
    bigint, text, text, bytea[], bigint, bigint, bigint, bigint, bigint, bigint
) RETURNS TABLE (
    is_closed text, now_ms bigint, last_ms bigint, found bigint, is_odd boolean, waited_ms bigint,
    c01 text, c02 text, c03 smallint, c04 bigint, c05 smallint, c06 smallint, c07 bigint, c08 bigint, c09 smallint,
    c10 bigint, c11 bigint, c12 smallint, c13 text, c14 bigint, c15 bigint, c16 bigint, c17 bigint, c18 bigint,
    r01 bigint, r02 bigint, r03 bigint, r04 bytea, r05 text, r06 text, r07 text, r08 text, r09 text, r10 bytea
) LANGUAGE sql
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT t.is_closed, t.now_ms, t.last_ms, t.found, t.is_odd, t.waited_ms, t.c01, t.c02, t.c03, t.c04, t.c05,
        t.c06, t.c07, t.c08, t.c09, t.c10, t.c11, t.c12, t.c13, t.c14, t.c15, t.c16, t.c17, t.c18, t.r01,
        t.r02, t.r03, t.r04, t.r05, t.r06, t.r07, t.r08, t.r09, t.r10
    FROM {schema}.take_due($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, NULL) t
$$;
