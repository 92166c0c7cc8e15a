export interface Entry {
  path: string;
  isDirectory: boolean;
  size: number;
}
/** Returns the bytes of a file: all of it, or at most `max` from `offset`. */
export function read(path: string, options?: { offset?: number; max?: number }): Uint8Array;
/** Returns a file as a string; bytes that are not UTF-8 become U+FFFD. */
export function readText(path: string): string;
/** Returns one page of the entries that match a glob. */
export function list(glob?: string, options?: { after?: string; limit?: number }): Entry[];
/** Yields all entries that match a glob and that .gitignore does not exclude. */
export function walk(glob?: string): Generator<Entry>;
/** Replaces the whole file, atomically. Needs `workspace-write`. */
export function write(path: string, contents: string | Uint8Array | ArrayBuffer): void;
/** Deletes a file. Needs `workspace-delete`. `workspace.delete` is the same. */
export function remove(path: string): void;
export { remove as delete };
