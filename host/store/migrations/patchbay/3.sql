-- Who had which tool called, and what it came to. It outlives the sessions, so that nothing refers to them.
CREATE TABLE journal (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL, -- when the call began, in milliseconds since 1970
    call         TEXT NOT NULL,
    parent_call  TEXT,             -- the call that made this one; its own row is written later
    session      TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    asker        TEXT NOT NULL,    -- person, tool:SKILL__TOOL, agent:UUID
    root         TEXT NOT NULL,
    skill        TEXT NOT NULL,
    tool         TEXT NOT NULL,
    component    TEXT NOT NULL,
    input_hash   TEXT NOT NULL,
    grants       TEXT NOT NULL,    -- JSON: the capabilities that were used, sorted
    fuel         INTEGER NOT NULL,
    time_us      INTEGER NOT NULL,
    peak_memory  INTEGER NOT NULL, -- bytes
    host_calls   INTEGER NOT NULL,
    output_bytes INTEGER NOT NULL,
    outcome      TEXT NOT NULL,    -- ok, or the code
    input        TEXT,             -- these two only where the operator wants contents kept
    output       TEXT
) STRICT;

CREATE INDEX journal_by_skill ON journal (skill);
CREATE INDEX journal_by_session ON journal (session);

-- Components that may not run.
CREATE TABLE blocks (
    component  TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
