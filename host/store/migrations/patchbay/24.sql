-- The workspace in which a grant holds. Grants of earlier versions hold in every workspace, as before.
CREATE TABLE placed_grants (
    root         TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    skill        TEXT NOT NULL,
    capability   TEXT NOT NULL,
    place        TEXT NOT NULL,
    skill_digest TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (root, workspace, skill, capability, place)
) STRICT, WITHOUT ROWID;

INSERT INTO placed_grants (root, workspace, skill, capability, place, skill_digest, created_at)
SELECT root, workspace, skill, capability, '', skill_digest, created_at FROM grants;

DROP TABLE grants;

ALTER TABLE placed_grants RENAME TO grants;
