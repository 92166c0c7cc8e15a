declare const brand: unique symbol;

/** One piece of a result, made by `text`, `json`, `blob` or `link`. */
export interface Content {
  readonly [brand]: true;
  readonly tag: "text" | "json" | "blob" | "link";
  readonly val: unknown;
}

/**
 * What a tool returns: a string (text), a JSON value, a content, or an array with at least one content, in which strings
 * are text. Promises, `undefined`, BigInts, Maps, Sets and bytes are rejected.
 */
export type Result = string | number | boolean | null | Content | readonly Result[] | { readonly [key: string]: JsonOf };
/** A value with a JSON form; `undefined` properties are left out. */
export type JsonOf = string | number | boolean | null | undefined | readonly JsonOf[] | { readonly [key: string]: JsonOf };

/** Text. A tool can also return the string itself. */
export function text(value: string): Content;
/** A JSON value. A tool can also return the object itself. */
export function json(value: unknown): Content;
/** Bytes with their media type, such as `image/png`. */
export function blob(mediaType: string, data: Uint8Array | ArrayBuffer | string): Content;
/** A file of the workspace, by its relative path. */
export function link(path: string, mediaType?: string): Content;
