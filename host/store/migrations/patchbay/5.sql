-- Which model an agent works with; NULL where nobody chose one. `model_override` is JSON.
ALTER TABLE agents ADD COLUMN provider TEXT;
ALTER TABLE agents ADD COLUMN model TEXT;
ALTER TABLE agents ADD COLUMN thinking_level TEXT;
ALTER TABLE agents ADD COLUMN model_override TEXT;

-- Tokens that the session's models have taken so far, input and output together.
ALTER TABLE sessions ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;

-- What has come so far of an answer that is under way. It becomes a message when it ends, or when the session is taken up
-- again after the process died.
CREATE TABLE partials (
    agent   TEXT PRIMARY KEY REFERENCES agents (uuid) ON DELETE CASCADE,
    content TEXT NOT NULL,
    data    TEXT NOT NULL -- JSON, as of the message that it will be
) STRICT, WITHOUT ROWID;

-- The operator's yes to a provider of a dropped-in file: where its requests may go, and which secret they carry.
CREATE TABLE allowances (
    provider   TEXT PRIMARY KEY,
    base_url   TEXT NOT NULL, -- empty: no network
    variable   TEXT NOT NULL, -- the environment variable of its credential; empty: none
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who had a model prefix first.
CREATE TABLE prefixes (
    prefix   TEXT PRIMARY KEY,
    provider TEXT NOT NULL
) STRICT, WITHOUT ROWID;
