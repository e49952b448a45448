-- Namespace, vendor and account: the beginning of the scope. Not stored.
ALTER TABLE operation ADD COLUMN account TEXT
    GENERATED ALWAYS AS (substr(scope, 1, length(vendor) + instr(substr(scope, length(vendor) + 2), '/'))) VIRTUAL;

-- What a dispatcher takes in turn from the accounts that it reaches. A call that is sent at once is never in it.
CREATE INDEX operation_due ON operation (account, until_ms) WHERE phase = 2 AND until_ms IS NOT NULL;
