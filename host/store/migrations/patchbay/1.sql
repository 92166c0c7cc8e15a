CREATE TABLE snapshots (
    digest TEXT PRIMARY KEY,
    body   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id               TEXT PRIMARY KEY,
    workspace        TEXT NOT NULL,
    agent            TEXT NOT NULL,
    persona          TEXT NOT NULL, -- JSON: name and files with their text
    snapshot         TEXT NOT NULL REFERENCES snapshots (digest),
    snapshot_version INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    used_at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_snapshot ON sessions (snapshot);

-- Which components a snapshot needs: what may be collected is found without reading bodies.
CREATE TABLE snapshot_components (
    snapshot  TEXT NOT NULL REFERENCES snapshots (digest) ON DELETE CASCADE,
    component TEXT NOT NULL,
    PRIMARY KEY (snapshot, component)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    uuid       TEXT PRIMARY KEY,
    session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX agents_by_session ON agents (session);

CREATE TABLE messages (
    session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    agent      TEXT NOT NULL REFERENCES agents (uuid) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    content    TEXT NOT NULL,
    data       TEXT, -- JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX messages_by_agent ON messages (agent);

-- What a component answered when it was asked for its tools, or why it could not: JSON.
CREATE TABLE described (
    component TEXT NOT NULL,
    world     TEXT NOT NULL,
    answer    TEXT NOT NULL,
    PRIMARY KEY (component, world)
) STRICT, WITHOUT ROWID;

-- `component` is the digest that the grant was given for; empty: whatever the identity has.
CREATE TABLE grants (
    root       TEXT NOT NULL,
    workspace  TEXT NOT NULL,
    skill      TEXT NOT NULL,
    capability TEXT NOT NULL,
    component  TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (root, workspace, skill, capability)
) STRICT, WITHOUT ROWID;

CREATE TABLE trust (
    workspace  TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
