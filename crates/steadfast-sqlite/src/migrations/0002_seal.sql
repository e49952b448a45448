-- The keys that any row may be sealed with. A key is here before the first row that it seals, so that one look at this
-- table says whether a process can read the file.
CREATE TABLE seal_key (
    id BLOB PRIMARY KEY -- the first 8 bytes of a hash of the key, see SealKeyId
) STRICT, WITHOUT ROWID;

-- Names of fields that are never shown, a JSON array; null for none.
ALTER TABLE operation ADD COLUMN redact TEXT;
