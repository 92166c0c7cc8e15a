-- Who may write a session. `epoch` grows each time a process takes it; `holder` is the opening of the store that did so last,
-- NULL for a session that no process of this build has taken yet.
ALTER TABLE sessions ADD COLUMN holder TEXT;
ALTER TABLE sessions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

-- The number of the session's last row; 0 for none.
ALTER TABLE sessions ADD COLUMN last_seq INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET last_seq = coalesce((SELECT max(seq) FROM messages WHERE session = sessions.id), 0);

-- The principal that the session belongs to; empty: the person of this machine.
ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
