export interface Change {
  path: string;
  /** The complete new contents; without it the file is deleted. */
  contents?: string | Uint8Array | ArrayBuffer | null;
  extra?: Record<string, string>;
}
/**
 * Asks the user once to allow all changes, but makes none: do that with `workspace.write` and `workspace.delete`, which then
 * need no further question. At most 200. Needs `workspace-write`, `workspace-delete` or both.
 */
export function declare(changes: Change[]): void;
