// Searches all files of the workspace in one call. Needs the capability `workspace-read`.
import * as raw from "patchbay:host/workspace-search";
import { boolean, host, optional, pairs, string, strings, u32, u64 } from "./host.js";

const globsOf = (globs) => strings("search: globs", typeof globs === "string" ? [globs] : globs);

const position = (what, { path, line }) => ({ path: string(`${what}.path`, path), line: optional(u64, `${what}.line`, line) });

/** Returns lines that match a regular expression or, with `fixed`, a plain text. If `next` is set, pass it as `after`. */
export function text(pattern, options = {}) {
  const query = {
    pattern: string("search.text: the pattern", pattern),
    fixed: boolean("search.text: fixed", options.fixed ?? false),
    ignoreCase: boolean("search.text: ignoreCase", options.ignoreCase ?? false),
    globs: globsOf(options.globs ?? []),
    after: optional(position, "search.text: after", options.after),
    context: u32("search.text: context", options.context ?? 0),
    maxLines: u32("search.text: maxLines", options.maxLines ?? 1000),
    maxLineBytes: u32("search.text: maxLineBytes", options.maxLineBytes ?? 400),
    timeMs: optional(u32, "search.text: timeMs", options.timeMs),
    extra: pairs("search.text: extra", options.extra),
  };
  return host("search.text", () => raw.search(query));
}

/** Returns files whose paths match the globs. If `next` is set, pass it as `after` to continue. */
export function files(globs = [], options = {}) {
  const query = {
    globs: globsOf(globs),
    ignoreCase: boolean("search.files: ignoreCase", options.ignoreCase ?? false),
    directories: boolean("search.files: directories", options.directories ?? false),
    after: optional(string, "search.files: after", options.after),
    maxEntries: u32("search.files: maxEntries", options.maxEntries ?? 1000),
    timeMs: optional(u32, "search.files: timeMs", options.timeMs),
    extra: pairs("search.files: extra", options.extra),
  };
  return host("search.files", () => raw.find(query));
}
