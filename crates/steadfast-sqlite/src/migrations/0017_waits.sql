-- A vendor's wait was believed without bounds: what was tried and is due later than a day after that is due by then.
UPDATE operation SET until_ms = updated_at_ms + 86400000
WHERE phase = 2 AND attempts > 0 AND until_ms > updated_at_ms + 86400000;
