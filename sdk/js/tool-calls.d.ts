import type { HostError } from "./failure.js";

export interface Request {
  /** The full name, such as `SKILL__TOOL`. */
  tool: string;
  input?: object;
  extra?: Record<string, string>;
}
export type RawContent =
  | { tag: "text" | "json"; val: string }
  | { tag: "blob"; val: { mediaType: string; data: Uint8Array } }
  | { tag: "link"; val: { path: string; mediaType: string } }
  | { tag: "other"; val: { name: string; value: string } };
export type Outcome = { content: RawContent[]; error?: undefined } | { error: HostError; content?: undefined };

/** Starts calls and returns one id for each. At most eight run at a time. */
export function start(requests: Request[]): number[];
/** Blocks until calls have ended. None are returned if no call is running. */
export function wait(): ({ id: number } & Outcome)[];
/** Cancels calls by their ids. */
export function cancel(ids: number[]): void;
/** Runs calls, eight at a time. Returns their outcomes in the order of the requests. */
export function all(requests: Request[]): Outcome[];
/** Returns the text of an outcome, or throws its error. */
export function textOf(outcome: Outcome): string;
