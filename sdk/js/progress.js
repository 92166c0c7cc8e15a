// Partial output of a running tool, streamed to the caller. Always granted.
import { report as send } from "patchbay:host/progress";
import { host, string } from "./host.js";

/** Streams text to the caller. */
export function report(text) {
  const line = string("progress.report: the text", text);
  host("progress.report", () => send(line));
}
