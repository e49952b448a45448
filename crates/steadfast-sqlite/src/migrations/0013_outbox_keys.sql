-- The rows of a key: those that wait, for a call under it that is refused before its claim, and those that were rejected.
CREATE INDEX steadfast_outbox_key ON steadfast_outbox (namespace, vendor, account, key);
