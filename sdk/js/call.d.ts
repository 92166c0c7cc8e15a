/** Returns facts about the call. The id is a good idempotency key. Fails with `unavailable` if no capability but `workspace-read` is granted. */
export function info(): { id: string; attempt: number; extra: Record<string, string> };
/** Returns how much of a limit is left. */
export function remaining(limit: "time-ms" | "host-calls" | "output-bytes" | "inference-tokens" | (string & {})): number;
