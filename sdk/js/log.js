// Diagnostics for the operator. Never shown to the model; always granted.
import { write as send } from "patchbay:host/log";
import { host, oneOf, string } from "./host.js";

/** Writes one line at a level: `debug`, `info`, `warn` or `error`. */
export function write(level, message) {
  oneOf("log.write: the level", level, ["debug", "info", "warn", "error"]);
  const line = string("log: the message", message);
  host("log", () => send(level, line));
}

export const debug = (message) => write("debug", message);
export const info = (message) => write("info", message);
export const warn = (message) => write("warn", message);
export const error = (message) => write("error", message);
