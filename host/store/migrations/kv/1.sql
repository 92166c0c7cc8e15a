-- A scope is one skill's state in one session, one workspace, or for one person.
CREATE TABLE scopes (
    id           INTEGER PRIMARY KEY,
    root         TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    skill        TEXT NOT NULL,
    scope        TEXT NOT NULL, -- session, workspace or user
    place        TEXT NOT NULL, -- the session's id, the workspace's path, or empty
    last_version INTEGER NOT NULL DEFAULT 0,
    entries      INTEGER NOT NULL DEFAULT 0,
    bytes        INTEGER NOT NULL DEFAULT 0,
    UNIQUE (root, workspace, skill, scope, place)
) STRICT;

CREATE TABLE entries (
    scope   INTEGER NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
    key     TEXT NOT NULL,
    value   BLOB NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
