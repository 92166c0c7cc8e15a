-- Deleting files of the workspace is a capability of its own. Whoever could write before could delete as well.
INSERT OR IGNORE INTO grants (root, workspace, skill, capability, component, created_at, skill_digest)
SELECT root, workspace, skill, 'workspace-delete', component, created_at, skill_digest
FROM grants WHERE capability = 'workspace-write';
