-- The files that the user attached to messages of a session. The contents are files named by digest; garbage collection keeps
-- those that are named here.
CREATE TABLE attachments (
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    digest  TEXT NOT NULL,
    PRIMARY KEY (session, digest)
) STRICT, WITHOUT ROWID;

-- JSON: the references of a waiting line's attachments; NULL for none.
ALTER TABLE queued_lines ADD COLUMN attachments TEXT;
