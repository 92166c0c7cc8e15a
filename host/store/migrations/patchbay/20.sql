-- The generation of the provider's catalogue in which a model was listed last. Models that were listed longest ago make room for
-- others.
ALTER TABLE catalogue_models ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
