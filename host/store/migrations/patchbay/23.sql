-- The names that the tree's columns have in the specification of `/fork`.
ALTER TABLE agents RENAME COLUMN parent TO parent_uuid;
ALTER TABLE agents RENAME COLUMN fork_point TO fork_message_id;

-- Work that the first start after this migration has to do. A row is deleted in the transaction that does it.
CREATE TABLE upgrades (
    name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- `llama_prefix`: `meta` owns the prefix `llama-` now. Only names that an API has listed may have reached another provider before.
INSERT INTO upgrades SELECT 'llama_prefix' WHERE EXISTS (SELECT 1 FROM catalogue_models);
