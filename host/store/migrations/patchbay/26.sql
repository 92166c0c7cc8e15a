-- The turns and commands that changed files, so that their changes can be taken back.
CREATE TABLE change_sets (
    session  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number   INTEGER NOT NULL,           -- from 1 in its session
    agent    TEXT NOT NULL,
    turn     INTEGER,                    -- the first row of the turn; NULL for a command
    call     BLOB,                       -- the outermost call of a command; NULL for a turn
    reverts  TEXT NOT NULL DEFAULT '[]', -- JSON: the numbers of the sets that it takes back
    reverted INTEGER NOT NULL DEFAULT 0, -- whether it was taken back
    at       INTEGER NOT NULL,           -- when it began, in milliseconds since 1970
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- A file that a set changed. If another change came in between, there are several rows for it.
CREATE TABLE file_changes (
    session  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    ordinal  INTEGER NOT NULL,           -- the order of all changes of the session
    number   INTEGER NOT NULL,           -- the change set
    path     TEXT NOT NULL,
    before   TEXT,                       -- the digest of the contents; NULL: there was no file
    after    TEXT,                       -- the same, after the last change
    size     INTEGER NOT NULL,           -- bytes of the contents before
    mode     INTEGER,                    -- the permission bits before
    kept     INTEGER NOT NULL,           -- whether the contents before are stored, as an attachment
    PRIMARY KEY (session, ordinal)
) STRICT, WITHOUT ROWID;

CREATE INDEX file_changes_by_path ON file_changes (session, path);
