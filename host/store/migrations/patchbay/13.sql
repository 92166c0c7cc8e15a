-- Lines that wait for their turn, as they were typed. A row is deleted in the commit with which its turn begins.
CREATE TABLE queued_lines (
    session  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    position INTEGER NOT NULL, -- the order of the lines; may be negative
    agent    TEXT NOT NULL REFERENCES agents (uuid) ON DELETE CASCADE,
    line     TEXT NOT NULL,    -- the id that the line got when it was submitted
    content  TEXT NOT NULL,
    PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;

-- 1 for a message that the user dropped, and for what its turn added: such rows are not sent to the model.
ALTER TABLE messages ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;
