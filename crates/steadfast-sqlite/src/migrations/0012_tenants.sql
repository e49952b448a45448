-- What a dispatcher takes in turn from the accounts that it reaches: by namespace, vendor and account, which are the
-- beginning of the scope. A call that is sent at once is never in it, and pays nothing for it: a column would be computed
-- for each row that is written.
CREATE INDEX operation_due ON operation (
    substr(scope, 1, length(vendor) + instr(substr(scope, length(vendor) + 2), '/')), until_ms
) WHERE phase = 2 AND until_ms IS NOT NULL;

-- The dead letters that wait for a person are those without an end: one index for two, and each call writes to one less.
DROP INDEX operation_dead;
DROP INDEX operation_ended;
CREATE INDEX operation_ended ON operation (until_ms) WHERE phase > 2;
