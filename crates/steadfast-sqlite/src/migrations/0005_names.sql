-- The key of the dead letter that this operation starts over; null for none.
ALTER TABLE operation ADD COLUMN predecessor TEXT;
-- The scope of the first claim, if the operation was adopted by another since; null if not.
ALTER TABLE operation ADD COLUMN first_scope TEXT;
