-- The rows of a key: those that wait, for a call under it that is refused before its claim, and those that were rejected.
CREATE INDEX outbox_key ON {schema}.outbox (namespace, vendor, account, key);
