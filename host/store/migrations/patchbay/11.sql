-- What has come so far of the answers under way, in pieces: each holds what was added since the one before. They become a
-- message when the answer ends, or when the session is resumed after the process died.
CREATE TABLE partial_pieces (
    agent   TEXT NOT NULL REFERENCES agents (uuid) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, -- from 0 in each answer
    piece   TEXT NOT NULL,    -- JSON
    PRIMARY KEY (agent, ordinal)
) STRICT, WITHOUT ROWID;

-- The whole answer so far, as earlier builds kept it, is a first piece. The table stays, since a process of an earlier build
-- may still write to it.
INSERT INTO partial_pieces SELECT agent, 0, data FROM partials;
DELETE FROM partials;
