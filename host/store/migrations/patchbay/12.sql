-- Calls that run: a row is written before the first effect of a call, and replaced when the call has ended.
CREATE TABLE calls_new (
    id           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL, -- when the call began, in milliseconds since 1970
    call         BLOB NOT NULL,    -- the 16 bytes of its UUID
    parent       BLOB,             -- the call that made this one
    site         INTEGER NOT NULL,
    input_hash   BLOB NOT NULL,
    grants       TEXT,             -- JSON: the capabilities that were used, sorted; NULL for none
    fuel         INTEGER NOT NULL,
    time_us      INTEGER NOT NULL,
    peak_memory  INTEGER NOT NULL, -- bytes
    host_calls   INTEGER NOT NULL,
    output_bytes INTEGER NOT NULL,
    outcome      TEXT,             -- ok, or the code; NULL while the call runs
    input        TEXT,             -- these two only where the operator wants contents kept
    output       TEXT,
    unsettled    INTEGER,          -- 1 from the first effect until the call's result is committed; else NULL
    agent        TEXT,             -- these two only while the row is unsettled: the agent,
    line         TEXT              -- and the line that a person typed, so that its end can be told after a crash
) STRICT;

INSERT INTO calls_new
SELECT id, at, call, parent, site, input_hash, grants, fuel, time_us, peak_memory, host_calls, output_bytes, outcome,
       input, output, NULL, NULL, NULL
FROM calls ORDER BY id;

DROP TABLE calls;
ALTER TABLE calls_new RENAME TO calls;
CREATE UNIQUE INDEX calls_unsettled ON calls (call) WHERE unsettled = 1;
