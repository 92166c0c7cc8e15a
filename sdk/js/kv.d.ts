export interface Entry {
  value: Uint8Array;
  version: number;
}
export interface PutOptions {
  /** The version that the key must have now; 0: the key must not exist. Otherwise the error is `conflict`. */
  expect?: number;
}
/** The keys of one scope. Values are bytes; strings are stored as UTF-8. */
export interface Store {
  entry(key: string): Entry | undefined;
  get(key: string): Uint8Array | undefined;
  text(key: string): string | undefined;
  json<T = any>(key: string): T | undefined;
  /** Stores the value on disk and returns its new version. */
  put(key: string, value: string | Uint8Array | ArrayBuffer, options?: PutOptions): number;
  putJson(key: string, value: unknown, options?: PutOptions): number;
  /** Returns whether the key existed. */
  delete(key: string): boolean;
  /** Returns keys, sorted by bytes: at most `limit` (1,000) that begin with `prefix` and follow `after`. */
  keys(options?: { prefix?: string; after?: string; limit?: number }): string[];
}
/** Shared by all sessions of the user. */
export const user: Store;
/** Shared by all sessions of the workspace. */
export const workspace: Store;
/** Used by this session only. */
export const session: Store;
export function scope(name: "user" | "workspace" | "session"): Store;
