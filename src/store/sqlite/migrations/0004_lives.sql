-- The highest fence of any row that was removed, in one row: a key that is claimed for the first time starts above it.
-- What was removed before had no fence above those that are left, as far as anybody can tell.
CREATE TABLE purged (
    fence INTEGER NOT NULL
) STRICT;
INSERT INTO purged SELECT coalesce(max(fence), 0) FROM operation;

-- The fence that this life of the key began with; 0 where nobody noted it.
ALTER TABLE operation ADD COLUMN first_fence INTEGER NOT NULL DEFAULT 0;
