-- The instructions of skills, by their content: a snapshot names them by their digest.
CREATE TABLE texts (
    digest TEXT PRIMARY KEY,
    body   TEXT NOT NULL
) STRICT;

CREATE TABLE snapshot_texts (
    snapshot TEXT NOT NULL REFERENCES snapshots (digest) ON DELETE CASCADE,
    text     TEXT NOT NULL,
    PRIMARY KEY (snapshot, text)
) STRICT, WITHOUT ROWID;

-- The files of a skill with their digests, by the skill's digest, which is the digest of this list.
CREATE TABLE skill_files (
    skill TEXT PRIMARY KEY,
    files BLOB NOT NULL -- text with NULs: PATH NUL SHA256 LF
) STRICT;

CREATE TABLE snapshot_skills (
    snapshot TEXT NOT NULL REFERENCES snapshots (digest) ON DELETE CASCADE,
    skill    TEXT NOT NULL,
    PRIMARY KEY (snapshot, skill)
) STRICT, WITHOUT ROWID;

-- The digest of the skill that a grant was given for; empty for bundled skills, and for grants of builds that looked at the
-- component alone.
ALTER TABLE grants ADD COLUMN skill_digest TEXT NOT NULL DEFAULT '';

-- What a SKILL.md holds has another form now. A cache: it fills again.
DROP TABLE seen;
CREATE TABLE seen (
    folder   TEXT NOT NULL, -- the root
    file     TEXT NOT NULL, -- below it
    program  TEXT NOT NULL, -- the very build that read it: another one may read otherwise
    stat     TEXT NOT NULL, -- the state in which it was
    digest   TEXT NOT NULL,
    skill_md TEXT,          -- JSON: what the SKILL.md says that it is or has embedded
    PRIMARY KEY (folder, file)
) STRICT;
