-- What requests to models have cost. Rows stay when their session is removed, because the day's budget counts them. Amounts are
-- billionths of a US dollar.
CREATE TABLE spending (
    day      INTEGER NOT NULL, -- days since 1970 in UTC
    session  TEXT NOT NULL,
    agent    TEXT NOT NULL,
    tool     TEXT NOT NULL,    -- the tool whose inference it was, or the kind of request
    provider TEXT NOT NULL,
    model    TEXT NOT NULL,
    requests INTEGER NOT NULL,
    unpriced INTEGER NOT NULL, -- the requests among them whose price is unknown
    amount   INTEGER NOT NULL, -- the cost of all
    assumed  INTEGER NOT NULL, -- the part of `amount` that was reserved for requests whose usage never became known
    PRIMARY KEY (day, session, agent, tool, provider, model)
) STRICT, WITHOUT ROWID;

CREATE INDEX spending_by_session ON spending (session);

-- Requests under way, with the most that each can cost. A row of a process that died stays, and counts.
CREATE TABLE reservations (
    id       INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, because a process that was suspended may settle late
    day      INTEGER NOT NULL,
    session  TEXT NOT NULL,
    agent    TEXT NOT NULL,
    tool     TEXT NOT NULL,
    provider TEXT NOT NULL,
    model    TEXT NOT NULL,
    priced   INTEGER NOT NULL,
    amount   INTEGER NOT NULL
) STRICT;

-- The bytes of contents that are kept for `/undo`: the sum of `size` over the kept rows of `file_changes`.
ALTER TABLE sessions ADD COLUMN kept_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET kept_bytes = (SELECT coalesce(sum(size), 0) FROM file_changes WHERE session = sessions.id AND kept);
