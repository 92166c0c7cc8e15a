// Several file changes that the user allows with one answer. Needs `workspace-write`, `workspace-delete` or both.
import * as raw from "patchbay:host/workspace-changes";
import { bytes, host, optional, pairs, string } from "./host.js";
import { describe } from "./failure.js";

/**
 * Asks once to allow all changes `{ path, contents }`; without `contents` a file is deleted. Changes nothing: make each
 * change with `workspace.write` or `workspace.delete` afterwards.
 */
export function declare(changes) {
  if (!Array.isArray(changes)) throw new TypeError(`changes.declare: the changes must be an array, not ${describe(changes)}`);
  const list = changes.map(({ path, contents, extra }) => ({
    path: string("changes.declare: path", path),
    contents: optional(bytes, "changes.declare: contents", contents),
    extra: pairs("changes.declare: extra", extra),
  }));
  host("changes.declare", () => raw.declare(list));
}
