-- A model that an API has listed stays with its facts when it is gone, so that its end can be reported, and its name never reaches
-- another provider.
-- listed; gone: no longer listed; elsewhere: listed at an earlier base URL, without facts.
ALTER TABLE catalogue_models ADD COLUMN state TEXT NOT NULL DEFAULT 'listed';
-- The digest of the adapter that got all models of the API at this base URL. The table of another adapter may be newer than that
-- list.
ALTER TABLE catalogues ADD COLUMN complete_for TEXT;
-- Models that the last listing left out, because their ids or facts are invalid.
ALTER TABLE catalogues ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
