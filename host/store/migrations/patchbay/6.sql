-- Workspaces where plugins may write what needs a yes of its own: in a home folder, and files with instructions for agents.
CREATE TABLE write_trust (
    workspace  TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
