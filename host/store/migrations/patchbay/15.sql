-- The tree of agents. The root has no parent.
ALTER TABLE agents ADD COLUMN parent TEXT;
ALTER TABLE agents ADD COLUMN fork_point INTEGER NOT NULL DEFAULT 0; -- the last row of the parent's conversation that it inherits
ALTER TABLE agents ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;    -- order of creation in the session; 0 for the root
ALTER TABLE agents ADD COLUMN status TEXT NOT NULL DEFAULT 'running'; -- running, dead
ALTER TABLE agents ADD COLUMN foreground INTEGER NOT NULL DEFAULT 1; -- 0 for a child that a model made
ALTER TABLE agents ADD COLUMN capturing INTEGER;                     -- NULL, or the session's last row when capturing began
ALTER TABLE agents ADD COLUMN next_mail INTEGER NOT NULL DEFAULT 1;  -- the number of the next mail to the agent
ALTER TABLE agents ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;     -- tokens that the agent's models have used

DROP INDEX agents_by_session;
CREATE INDEX agents_by_session ON agents (session, ordinal);

-- The summaries of each agent, so that the last one is found without reading the rows after it.
CREATE INDEX messages_compactions ON messages (agent, session, seq) WHERE kind = 'compaction';

-- `messages.dropped` is 0, or 1 plus the highest ordinal of an agent when the row was dropped: agents with a smaller ordinal
-- inherited the row before, and keep it. Rows of earlier builds have 1, since their sessions have one agent.

CREATE TABLE turns (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    began   INTEGER NOT NULL, -- the number of its first row
    agent   TEXT NOT NULL,
    cause   TEXT NOT NULL,    -- person, fork, mail
    state   TEXT NOT NULL,    -- waiting, running, done, interrupted
    code    TEXT,             -- how it ended; NULL while it is open, and if there is nothing to say
    PRIMARY KEY (session, began)
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_open ON turns (session) WHERE state IN ('waiting', 'running');

-- The bodies are outside the index of the primary key, so that an inbox is counted without reading them.
CREATE TABLE mail (
    recipient TEXT NOT NULL REFERENCES agents (uuid) ON DELETE CASCADE,
    number    INTEGER NOT NULL, -- in the inbox, from 1; never used again
    sender    TEXT NOT NULL,
    body      TEXT NOT NULL,
    sent_at   INTEGER NOT NULL, -- milliseconds since 1970; later mail of an inbox has a later time
    read      INTEGER NOT NULL DEFAULT 0,
    counted   INTEGER NOT NULL DEFAULT 0, -- 1 when a notification has counted it
    PRIMARY KEY (recipient, number)
) STRICT;

CREATE INDEX mail_unread ON mail (recipient, counted) WHERE read = 0;
