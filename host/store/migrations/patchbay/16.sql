-- The models that providers list. A listing belongs to the base URL that was asked: another server has other models.
CREATE TABLE catalogues (
    provider TEXT NOT NULL PRIMARY KEY,
    base_url TEXT NOT NULL,
    -- Whether this home has used the provider, so that its list is refreshed in the background.
    used INTEGER NOT NULL DEFAULT 0,
    -- When the background may ask again, in seconds since 1970.
    next_at INTEGER NOT NULL DEFAULT 0,
    -- When the last listing succeeded.
    listed_at INTEGER,
    -- What the next listing gets, such as an ETag.
    validator TEXT,
    -- Why the last listing failed.
    problem TEXT,
    -- Grows with each change of the models.
    generation INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE catalogue_models (
    provider TEXT NOT NULL,
    id TEXT NOT NULL,
    -- A JSON object.
    facts TEXT NOT NULL,
    PRIMARY KEY (provider, id)
) STRICT, WITHOUT ROWID;
