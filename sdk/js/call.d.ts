/** What is known about the call. The id is a good idempotency key. `unavailable` for a call that can have no effects. */
export function info(): { id: string; attempt: number; extra: Record<string, string> };
/** Returns how much of a limit is left. */
export function remaining(limit: "time-ms" | "host-calls" | "output-bytes" | "inference-tokens" | (string & {})): number;
