export interface Entry {
  path: string;
  size: number;
  /** The SHA-256 in lower-case hex. */
  digest: string;
  extra: Record<string, string>;
}
/** Returns one page of files whose path begins with `prefix`. */
export function list(prefix?: string, options?: { after?: string; limit?: number }): Entry[];
/** Yields all files whose path begins with `prefix`. */
export function entries(prefix?: string): Generator<Entry>;
/** Returns the bytes of a file: all of it, or at most `max` from `offset`. */
export function read(path: string, options?: { offset?: number; max?: number }): Uint8Array;
/** Returns a file as a string. */
export function readText(path: string): string;
