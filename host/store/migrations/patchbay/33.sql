-- Lines that clients of `patchbay serve` sent with an Idempotency-Key, kept for 24 hours.
CREATE TABLE sent_lines (
    person     TEXT NOT NULL, -- of the token; empty for the local person
    key        TEXT NOT NULL,
    request    TEXT NOT NULL, -- the digest of the session and the body
    line       TEXT,          -- NULL until the line was submitted
    created_at INTEGER NOT NULL,
    PRIMARY KEY (person, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX sent_lines_by_time ON sent_lines (created_at);
