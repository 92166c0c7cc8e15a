-- The tokens of clients of `patchbay serve`. The tokens themselves are stored nowhere.
CREATE TABLE client_tokens (
    name       TEXT PRIMARY KEY,
    digest     TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    person     TEXT NOT NULL,        -- the person it belongs to; empty for the local person
    may        TEXT NOT NULL,        -- lines, answers and grants, separated by commas, or none
    created_at INTEGER NOT NULL,
    expires_at INTEGER,              -- NULL: never
    used_at    INTEGER               -- written at most once an hour; NULL: never used
) STRICT, WITHOUT ROWID;
