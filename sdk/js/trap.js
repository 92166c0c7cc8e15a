// A bug in a plugin ends in a trap. The reason is logged first, because QuickJS's own message is lost.
import { write } from "patchbay:host/log";
import { describe } from "./failure.js";

// The host shows the last five lines of a call that trapped: the reason, and this many frames.
const FRAMES = 4;

/** Logs a thrown value, with its position in the plugin's source. Returns an error that traps when it is thrown. */
export function trap(where, thrown) {
  return bug(headline(where, thrown), ...frames(thrown));
}

/** Logs lines about a mistake in the plugin. Returns an error that traps when it is thrown. */
export function bug(...lines) {
  for (const line of lines) write("error", line.toWellFormed());
  return new Error(lines.join("\n"));
}

const headline = (where, thrown) => {
  if (!(thrown instanceof Error)) return `${where} ${describe(thrown)}; throw new Failure(kind, message), or an Error`;
  const cause = thrown.cause instanceof Error ? ` (caused by ${thrown.cause.name}: ${thrown.cause.message})` : "";
  return `${where} ${thrown.name}: ${thrown.message}${cause}`;
};

function frames(thrown) {
  if (!(thrown instanceof Error) || typeof thrown.stack !== "string") return [];
  const lines = thrown.stack.split("\n").filter((line) => /^\s*at /.test(line));
  // The frames from here on belong to the SDK.
  const end = lines.findIndex((line) => /^\s*at run(?:Tool|Step) /.test(line));
  const own = end < 0 ? lines : lines.slice(0, end);
  return own.length <= FRAMES ? own : [own[0], ...own.slice(1 - FRAMES)];
}
