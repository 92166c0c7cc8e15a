-- The title that the user gave to a session.
ALTER TABLE sessions ADD COLUMN title TEXT;
