// Calls other tools in parallel. Needs the capability `tools`.
import * as raw from "patchbay:host/tool-calls";
import { HostError, describe } from "./failure.js";
import { array, host, pairs, string, u32 } from "./host.js";
import { stringify } from "./content.js";

/** Starts calls `{ tool, input, extra? }` and returns one id for each. At most eight run at a time. */
export function start(requests) {
  const list = array("toolCalls.start: the requests", requests).map(({ tool, input = {}, extra }) => ({
    tool: string("toolCalls.start: tool", tool),
    input: stringify(input),
    extra: pairs("toolCalls.start: extra", extra),
  }));
  return host("toolCalls.start", () => raw.start(list));
}

/** Blocks until calls have ended. Returns outcomes `{ id, content }` or `{ id, error }`; none if no call is running. */
export function wait() {
  return host("toolCalls.wait", () => raw.wait()).map(({ id, answer }) =>
    answer.tag === "ok" ? { id, content: answer.val } : { id, error: new HostError(answer.val.kind, answer.val.message) },
  );
}

/** Cancels calls by their ids. */
export function cancel(ids) {
  const list = array("toolCalls.cancel: the ids", ids).map((id) => u32("toolCalls.cancel: each id", id));
  host("toolCalls.cancel", () => raw.cancel(list));
}

/** Runs calls, eight at a time. Returns their outcomes in the order of the requests. */
export function all(requests) {
  const outcomes = new Array(array("toolCalls.all: the requests", requests).length);
  const places = new Map();
  let next = 0;
  let done = 0;
  while (done < requests.length) {
    const batch = requests.slice(next, next + 8 - places.size);
    if (batch.length > 0) start(batch).forEach((id, i) => places.set(id, next + i));
    next += batch.length;
    const ended = wait();
    if (ended.length === 0) throw new Error("toolCalls.all: no call is running; do not use toolCalls.wait beside it");
    for (const { id, ...outcome } of ended) {
      if (!places.has(id)) continue;
      outcomes[places.get(id)] = outcome;
      places.delete(id);
      done += 1;
    }
  }
  return outcomes;
}

/** Returns the text of an outcome, or throws its error. */
export function textOf(outcome) {
  if (outcome?.error) throw outcome.error;
  if (!Array.isArray(outcome?.content)) throw new TypeError(`toolCalls.textOf needs an outcome, not ${describe(outcome)}`);
  return outcome.content.map(({ tag, val }) => (tag === "text" || tag === "json" ? val : `[${val.mediaType ?? val.name}]`)).join("\n");
}
