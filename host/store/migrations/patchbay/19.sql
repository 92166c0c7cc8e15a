-- The context window of a model at the first request of an agent's conversation to it. What the model is shown depends on it, and
-- stays the same when the provider lists another window later.
CREATE TABLE agent_windows (
    agent    TEXT NOT NULL REFERENCES agents (uuid) ON DELETE CASCADE,
    provider TEXT NOT NULL,
    model    TEXT NOT NULL,
    tokens   INTEGER NOT NULL,
    PRIMARY KEY (agent, provider, model)
) STRICT, WITHOUT ROWID;
