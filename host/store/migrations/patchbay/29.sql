-- The agent whose conversation it continues from an earlier message (`/rewind`), up to the row `fork_message_id`; NULL for others.
ALTER TABLE agents ADD COLUMN rewound TEXT;
-- How far it is below the root, as `limits.agent_depth` counts. An agent made by `/rewind` is as deep as the one that it continues.
ALTER TABLE agents ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
-- The tasks that its model listed last: JSON, a list of `content` and `status`.
ALTER TABLE agents ADD COLUMN tasks TEXT;
-- Without it, each agent would cost a scan of all.
CREATE INDEX agents_by_parent ON agents (parent_uuid);
WITH RECURSIVE tree (uuid, depth) AS (
    SELECT uuid, 0 FROM agents WHERE parent_uuid IS NULL
    UNION ALL
    SELECT agents.uuid, tree.depth + 1 FROM tree JOIN agents ON agents.parent_uuid = tree.uuid WHERE tree.depth < 64)
UPDATE agents SET depth = tree.depth FROM tree WHERE tree.uuid = agents.uuid;
DROP INDEX agents_by_parent;

-- A part of the files of a set can be undone. The number of the set that undid the change; 0 if the file had its earlier contents
-- anyway; NULL while the change is in force.
ALTER TABLE file_changes ADD COLUMN undone_by INTEGER;
UPDATE file_changes SET undone_by = coalesce(
    (SELECT max(undo.number) FROM change_sets AS undo, json_each(undo.reverts) AS undone
     WHERE undo.session = file_changes.session AND undone.value = file_changes.number), 0)
WHERE EXISTS (SELECT 1 FROM change_sets AS of
              WHERE of.session = file_changes.session AND of.number = file_changes.number AND of.reverted);
ALTER TABLE change_sets DROP COLUMN reverted;
-- The session's last row when the set began.
ALTER TABLE change_sets ADD COLUMN last_row INTEGER NOT NULL DEFAULT 0;
