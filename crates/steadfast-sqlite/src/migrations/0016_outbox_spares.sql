-- The key comes first: a purge asks for the rows of a key, whatever the account. It spares its record.
DROP INDEX steadfast_outbox_key;
CREATE INDEX steadfast_outbox_key ON steadfast_outbox (key, namespace, vendor, account);
CREATE INDEX steadfast_outbox_supersedes ON steadfast_outbox (supersedes) WHERE supersedes IS NOT NULL;

-- What has ended, for programs in other languages. A name that is not there has not ended, or its record was purged.
CREATE VIEW steadfast_ended AS SELECT scope, key,
    CASE phase WHEN 3 THEN 'succeeded' WHEN 4 THEN 'refused' WHEN 5 THEN 'dead' ELSE 'resolved' END AS outcome,
    CASE WHEN phase = 3 THEN 'applied' WHEN effect = 0 THEN 'none' ELSE 'unknown' END AS effect,
    status, updated_at_ms AS ended_at_ms
FROM operation WHERE phase > 2;
