-- The rows whose requests have headers that carry secrets: version 0.1 stored what it was given. Those that are there are
-- found by the program, which can read requests. A table beside the rows: a column and its index would cost every call.
CREATE TABLE secret_headers (
    operation INTEGER PRIMARY KEY -- operation.number
) STRICT;
