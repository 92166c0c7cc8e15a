import type { Auth, Header } from "./auth.js";
export { bearer, header, query } from "./auth.js";
export type { Auth, Header } from "./auth.js";

export interface Options {
  method?: string;
  headers?: Record<string, string> | [string, string][] | Header[];
  auth?: Auth | Auth[];
  body?: string | Uint8Array | ArrayBuffer;
  /** Sent as JSON, with its content type. */
  json?: unknown;
  /** Can only shorten the remaining time of the call. */
  timeoutMs?: number;
}
export interface Response {
  readonly status: number;
  readonly headers: Header[];
  readonly body: Uint8Array;
  /** Whether the status is from 200 to 299. */
  readonly ok: boolean;
  header(name: string): string | undefined;
  text(): string;
  json<T = any>(): T;
}
/** Sends a request and returns the response, whatever its status. Redirects are not followed. */
export function request(url: string | URL, options?: Options): Response;
export function get(url: string | URL, options?: Options): Response;
export function post(url: string | URL, options?: Options): Response;
