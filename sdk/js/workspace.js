// Files below the workspace root, by relative paths with '/'. Needs `workspace-read`, `workspace-write`,
// `workspace-delete`.
import { read as readRaw, walk as walkRaw } from "patchbay:host/workspace-read";
import { write as writeRaw, delete as deleteRaw } from "patchbay:host/workspace-write";
import { bytes, host, optional, paged, string, u32, u64 } from "./host.js";
import { decode } from "./utf8.js";
import { whole } from "./bytes.js";

/** Returns the bytes of a file: all of it, or at most `max` from `offset`. */
export function read(path, { offset = 0, max } = {}) {
  const name = string("workspace.read: the path", path);
  const start = u64("workspace.read: offset", offset);
  const page = (at, most) => host("workspace.read", () => readRaw(name, at, most));
  return max === undefined ? whole(page, start) : page(start, u32("workspace.read: max", max));
}

/** Returns a file as a string; bytes that are not UTF-8 become U+FFFD. */
export const readText = (path) => decode(read(path));

/** Returns one page of the entries `{ path, isDirectory, size }` that match a glob. */
export function list(glob = "**", { after, limit = 1000 } = {}) {
  const pattern = string("workspace.list: the glob", glob);
  const from = optional(string, "workspace.list: after", after);
  const most = u32("workspace.list: limit", limit);
  return host("workspace.list", () => walkRaw(pattern, from, most));
}

/** Yields all entries that match a glob and that .gitignore does not exclude. */
export const walk = (glob = "**") => paged((after) => list(glob, { after }), "path");

/** Replaces the whole file, atomically, with bytes or a string. */
export function write(path, contents) {
  const [name, data] = [string("workspace.write: the path", path), bytes("workspace.write: the contents", contents)];
  host("workspace.write", () => writeRaw(name, data));
}

/** Deletes a file. `workspace.delete` is the same. */
export function remove(path) {
  const name = string("workspace.delete: the path", path);
  host("workspace.delete", () => deleteRaw(name));
}

export { remove as delete };
