-- What a dispatcher takes in turn from the accounts that it reaches: by namespace, vendor and account, which are the
-- beginning of the scope. A call that is sent at once is never in it.
CREATE INDEX operation_due ON {schema}.operation
    (vendor, substr(scope, 1, length(vendor) + strpos(substr(scope, length(vendor) + 2), '/')), wake_ms)
    WHERE phase = 2 AND wake_ms IS NOT NULL;
