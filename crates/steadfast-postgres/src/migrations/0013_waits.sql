-- A vendor's wait was believed without bounds: what was tried and is due later than a day after that is due by then. What
-- waits for its turn in a sequence has no time to wake, and keeps none.
UPDATE {schema}.operation SET until_ms = updated_at_ms + 86400000,
    wake_ms = CASE WHEN wake_ms IS NOT NULL THEN least(wake_ms, updated_at_ms + 86400000) END
WHERE phase = 2 AND attempts > 0 AND until_ms > updated_at_ms + 86400000;
