-- A purge asks for the rows of a key, and for those that start it over: it spares its record. An operation's key has this
-- collation.
CREATE INDEX outbox_spares ON {schema}.outbox (key COLLATE "C");
CREATE INDEX outbox_supersedes ON {schema}.outbox (supersedes COLLATE "C") WHERE supersedes IS NOT NULL;

-- What has ended, for programs in other languages. A name that is not there has not ended, or its record was purged.
CREATE VIEW {schema}.ended AS SELECT scope, key,
    CASE phase WHEN 3 THEN 'succeeded' WHEN 4 THEN 'refused' WHEN 5 THEN 'dead' ELSE 'resolved' END AS outcome,
    CASE effect WHEN 0 THEN 'none' WHEN 1 THEN 'unknown' ELSE 'applied' END AS effect,
    status, updated_at_ms AS ended_at_ms
FROM {schema}.operation WHERE phase > 2;
