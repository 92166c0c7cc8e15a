/** Returns facts about the call. The id is a good idempotency key. Fails with `unavailable` in a call that may have no effects. */
export function info(): { id: string; attempt: number; extra: Record<string, string> };
/** Returns how much of a limit is left. */
export function remaining(limit: "time-ms" | "host-calls" | "output-bytes" | "inference-tokens" | (string & {})): number;
