-- What time it is, as far as the store believes it, and the first and the last of the times that it doubts; in the row
-- that was for fences alone.
ALTER TABLE purged ADD COLUMN believed_ms INTEGER;
ALTER TABLE purged ADD COLUMN doubted_from_ms INTEGER;
ALTER TABLE purged ADD COLUMN doubted_to_ms INTEGER;
UPDATE purged SET believed_ms = (SELECT max(updated_at_ms) FROM operation);
