-- Tokens of requests without a row: of skills, trials of models, and answers of which nothing was received.
CREATE TABLE model_usage (
    session     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    provider    TEXT NOT NULL,
    model       TEXT NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    thinking    INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    PRIMARY KEY (session, provider, model)
) STRICT, WITHOUT ROWID;

-- The results of calls that ended before an earlier call of the same answer. They become rows in the order of the calls.
CREATE TABLE early_results (
    call    BLOB PRIMARY KEY,
    agent   TEXT NOT NULL REFERENCES agents (uuid) ON DELETE CASCADE,
    content TEXT NOT NULL,
    data    TEXT NOT NULL -- JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX early_results_by_agent ON early_results (agent);

-- Tokens that were read from a cache no longer count.
UPDATE sessions SET tokens = max(0, tokens - (
    SELECT max(0, CAST(total(
        CASE WHEN json_valid(data) THEN data ->> '$.usage.cache_read' END) + total(
        CASE WHEN json_valid(data) THEN data ->> '$.failed_attempts.usage.cache_read' END) AS INTEGER))
    FROM messages WHERE session = sessions.id AND kind IN ('assistant', 'compaction')
));
UPDATE agents SET tokens = max(0, tokens - (
    SELECT max(0, CAST(total(
        CASE WHEN json_valid(data) THEN data ->> '$.usage.cache_read' END) + total(
        CASE WHEN json_valid(data) THEN data ->> '$.failed_attempts.usage.cache_read' END) AS INTEGER))
    FROM messages WHERE agent = agents.uuid AND session = agents.session AND kind IN ('assistant', 'compaction')
));
