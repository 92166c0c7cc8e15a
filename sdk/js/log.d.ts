export type Level = "debug" | "info" | "warn" | "error";
/** Writes one line to the log of the plugin, which the operator sees and the model never does. */
export function write(level: Level, message: string): void;
export function debug(message: string): void;
export function info(message: string): void;
export function warn(message: string): void;
export function error(message: string): void;
