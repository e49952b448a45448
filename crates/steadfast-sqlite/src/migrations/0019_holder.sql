-- The process that holds an operation, or held it last: for people alone. Null where none was noted.
ALTER TABLE operation ADD COLUMN holder TEXT;
