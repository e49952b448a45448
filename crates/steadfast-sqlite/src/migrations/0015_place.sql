-- Where the store is, as JSON, so that a copy knows that it is one; null where nobody could tell.
ALTER TABLE purged ADD COLUMN place TEXT;
-- Whether no request and no answer is in the clear, so that one which is was not written by a process with the key.
ALTER TABLE purged ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0;

-- As before, in words that also fit a store that was opened elsewhere.
DROP TRIGGER steadfast_outbox_closed;
CREATE TRIGGER steadfast_outbox_closed BEFORE INSERT ON steadfast_outbox
WHEN EXISTS (SELECT 1 FROM purged WHERE json_extract(standing, '$.stage') <> 'open')
BEGIN
    SELECT RAISE(ABORT, 'the store is closed: its records were copied to another store, which takes the calls, or it is a copy itself; see steadfast here');
END;
