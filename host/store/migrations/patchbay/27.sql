-- What recorded calls got from outside: a fixture as JSON. Recordings live as long as the row of their call in the journal.
CREATE TABLE recorded_calls (
    call_row  INTEGER PRIMARY KEY REFERENCES calls (id) ON DELETE CASCADE,
    session   TEXT NOT NULL,
    -- The recording with its contents.
    bytes     INTEGER NOT NULL,
    recording TEXT NOT NULL
) STRICT;

CREATE INDEX recorded_calls_by_session ON recorded_calls (session);

-- Contents that a recording names by digest. Recordings share them.
CREATE TABLE recorded_contents (
    digest  BLOB PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;

CREATE TABLE recorded_content_uses (
    call_row INTEGER NOT NULL REFERENCES recorded_calls (call_row) ON DELETE CASCADE,
    digest   BLOB NOT NULL,
    PRIMARY KEY (call_row, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX recorded_content_uses_by_digest ON recorded_content_uses (digest);

CREATE TRIGGER recorded_content_is_unused AFTER DELETE ON recorded_content_uses
WHEN NOT EXISTS (SELECT 1 FROM recorded_content_uses WHERE digest = old.digest)
BEGIN
    DELETE FROM recorded_contents WHERE digest = old.digest;
END;
