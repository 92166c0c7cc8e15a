-- A model that an API has listed stays with its facts when it is gone, so that its end can be reported, and its name never reaches
-- another provider.
-- listed; gone: no longer listed; elsewhere: listed at an earlier base URL, without facts.
ALTER TABLE catalogue_models ADD COLUMN state TEXT NOT NULL DEFAULT 'listed';
-- Whether the API has listed all its models at this base URL.
ALTER TABLE catalogues ADD COLUMN complete INTEGER NOT NULL DEFAULT 0;
-- Models that the last listing left out, because of an invalid id or invalid facts.
ALTER TABLE catalogues ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
-- Only a complete listing has a validator.
UPDATE catalogues SET complete = 1 WHERE validator IS NOT NULL;
