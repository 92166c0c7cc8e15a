-- The journal, in a form that costs a call less. What the calls of one tool have in common is stored once.
CREATE TABLE call_sites (
    id        INTEGER PRIMARY KEY,
    session   TEXT NOT NULL,
    workspace TEXT NOT NULL,
    asker     TEXT NOT NULL, -- person, tool:SKILL__TOOL, agent:UUID
    root      TEXT NOT NULL,
    skill     TEXT NOT NULL,
    tool      TEXT NOT NULL,
    component TEXT NOT NULL,
    UNIQUE (session, workspace, asker, root, skill, tool, component)
) STRICT;

-- `site` is not declared as a reference: the check would search all calls for each site that is removed.
CREATE TABLE calls (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL, -- when the call began, in milliseconds since 1970
    call         BLOB NOT NULL,    -- the 16 bytes of its UUID
    parent       BLOB,             -- the call that made this one; its own row is written later
    site         INTEGER NOT NULL,
    input_hash   BLOB NOT NULL,
    grants       TEXT,             -- JSON: the capabilities that were used, sorted; NULL for none
    fuel         INTEGER NOT NULL,
    time_us      INTEGER NOT NULL,
    peak_memory  INTEGER NOT NULL, -- bytes
    host_calls   INTEGER NOT NULL,
    output_bytes INTEGER NOT NULL,
    outcome      TEXT NOT NULL,    -- ok, or the code
    input        TEXT,             -- these two only where the operator wants contents kept
    output       TEXT
) STRICT;

INSERT INTO call_sites (session, workspace, asker, root, skill, tool, component)
SELECT DISTINCT session, workspace, asker, root, skill, tool, component FROM journal ORDER BY id;

INSERT INTO calls
SELECT journal.id, at, unhex(call, '-'), unhex(parent_call, '-'), call_sites.id, unhex(substr(input_hash, 8)),
       nullif(grants, '[]'), fuel, time_us, peak_memory, host_calls, output_bytes, outcome, input, output
FROM journal JOIN call_sites USING (session, workspace, asker, root, skill, tool, component)
ORDER BY journal.id;

DROP TABLE journal;
