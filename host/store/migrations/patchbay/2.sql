-- The digests of compiled components on disk, which are trusted only if they match.
CREATE TABLE artefacts (
    component   TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    digest      TEXT NOT NULL,
    PRIMARY KEY (component, fingerprint)
) STRICT, WITHOUT ROWID;
