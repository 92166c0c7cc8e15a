export interface Position {
  path: string;
  line?: number | null;
}
export interface TextOptions {
  /** The pattern is plain text. */
  fixed?: boolean;
  ignoreCase?: boolean;
  /** Globs of the files to search; with `!`, of files to leave out. */
  globs?: string | string[];
  /** `next` of an earlier result. */
  after?: Position;
  /** Lines before and after each matching line, at most 20. */
  context?: number;
  /** From 1 to 10,000; 1,000 if absent. */
  maxLines?: number;
  /** Bytes of each line, from 1 to 4,096; 400 if absent. */
  maxLineBytes?: number;
  timeMs?: number;
  extra?: Record<string, string>;
}
export interface Line {
  number: number;
  text: string;
  start: number;
  size: number;
  /** The bytes of the first match in `text`; absent for a line of context. */
  matched?: { start: number; end: number };
}
export interface TextResults {
  files: { path: string; lines: Line[] }[];
  searched: number;
  bytes: number;
  skipped: { reason: string; count: number; paths: string[] }[];
  stopped?: string;
  next?: Position;
}
/** Returns lines that match a regular expression in the syntax of Rust's crate `regex`. */
export function text(pattern: string, options?: TextOptions): TextResults;

export interface FilesOptions {
  ignoreCase?: boolean;
  /** Return folders as well. */
  directories?: boolean;
  after?: string;
  /** From 1 to 10,000; 1,000 if absent. */
  maxEntries?: number;
  timeMs?: number;
  extra?: Record<string, string>;
}
export interface FilesResults {
  entries: { path: string; isDirectory: boolean; size: number }[];
  stopped?: string;
  next?: string;
}
/** Returns files whose paths match the globs. */
export function files(globs?: string | string[], options?: FilesOptions): FilesResults;
