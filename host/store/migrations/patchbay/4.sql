-- What files of skills held when they were last read: one that has not changed since is not read again. A cache, whose loss
-- costs time alone.
CREATE TABLE seen (
    folder   TEXT NOT NULL, -- the root
    file     TEXT NOT NULL, -- below it
    program  TEXT NOT NULL, -- the very build that read it: another one may read otherwise
    stat     TEXT NOT NULL, -- the state in which it was
    digest   TEXT NOT NULL,
    manifest TEXT,          -- JSON: what the SKILL.md says that it is or has embedded
    PRIMARY KEY (folder, file)
) STRICT;
