-- The highest fence of any row that was removed, in one row: a key that is claimed for the first time starts above it.
-- What was removed before had no fence above those that are left, as far as anybody can tell.
CREATE TABLE purged (
    fence INTEGER NOT NULL
) STRICT;
INSERT INTO purged SELECT coalesce(max(fence), 0) FROM operation;

-- The fence that this life of the key began with; 0 where nobody noted it.
ALTER TABLE operation ADD COLUMN first_fence INTEGER NOT NULL DEFAULT 0;

-- The latest end of a send of unknown effect; null while there is none.
ALTER TABLE operation ADD COLUMN unknown_since_ms INTEGER;
ALTER TABLE operation ADD COLUMN look_ups INTEGER NOT NULL DEFAULT 0;
-- How many more sends may be a second effect.
ALTER TABLE operation ADD COLUMN resends_left INTEGER NOT NULL DEFAULT 0;
-- The longest exchange of the holder. Half a minute was the default of whoever wrote before.
ALTER TABLE operation ADD COLUMN attempt_max_ms INTEGER NOT NULL DEFAULT 30000;
-- The vendor's clock less ours at the first claim; null if nobody knew it.
ALTER TABLE operation ADD COLUMN vendor_clock_ms INTEGER;
-- A lease was never shorter than an exchange.
UPDATE operation SET attempt_max_ms = until_ms - updated_at_ms
WHERE phase = 1 AND until_ms - updated_at_ms > attempt_max_ms;
-- The last write came after the last send, but for what is in progress: see the take-over.
UPDATE operation SET unknown_since_ms = updated_at_ms WHERE effect = 1;
UPDATE operation SET resends_left = 1 WHERE on_unknown = 1 AND phase < 3;
