-- The number of writes to the session, raised by each of them.
ALTER TABLE sessions ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
