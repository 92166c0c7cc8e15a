// The files of the skill itself: SKILL.md and everything beside it. Always granted.
import * as raw from "patchbay:host/skill-files";
import { fromPairs, host, optional, paged, string, u32, u64 } from "./host.js";
import { decode } from "./utf8.js";
import { whole } from "./bytes.js";

/** Returns one page of files `{ path, size, digest, extra }` whose path begins with `prefix`. */
export function list(prefix = "", { after, limit = 1000 } = {}) {
  const [begin, from] = [string("skillFiles.list: the prefix", prefix), optional(string, "skillFiles.list: after", after)];
  const most = u32("skillFiles.list: limit", limit);
  return host("skillFiles.list", () => raw.entries(begin, from, most)).map((entry) => ({ ...entry, extra: fromPairs(entry.extra) }));
}

/** Yields all files whose path begins with `prefix`. */
export const entries = (prefix = "") => paged((after) => list(prefix, { after }), "path");

/** Returns the bytes of a file: all of it, or at most `max` from `offset`. */
export function read(path, { offset = 0, max } = {}) {
  const [name, start] = [string("skillFiles.read: the path", path), u64("skillFiles.read: offset", offset)];
  const page = (at, most) => host("skillFiles.read", () => raw.read(name, at, most));
  return max === undefined ? whole(page, start) : page(start, u32("skillFiles.read: max", max));
}

/** Returns a file as a string. */
export const readText = (path) => decode(read(path));
