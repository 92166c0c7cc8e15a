// The running call. A call without grants other than `workspace-read` has no identity, so every function fails with `unavailable` in it.
import * as raw from "patchbay:host/call";
import { fromPairs, host, string } from "./host.js";

/** Returns `{ id, attempt, extra }`. The id is a good idempotency key for requests. */
export function info() {
  const { id, attempt, extra } = host("call.info", () => raw.info());
  return { id, attempt, extra: fromPairs(extra) };
}

/** Returns how much is left of a limit: `time-ms`, `host-calls`, `output-bytes` or `inference-tokens`. */
export function remaining(limit) {
  const word = string("call.remaining: the limit", limit);
  return host("call.remaining", () => raw.remaining(word));
}
