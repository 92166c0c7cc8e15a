import "./globals.js";

export { blob, json, link, text } from "./content.js";
export type { Content, Result } from "./content.js";
export { Failure, HostError } from "./failure.js";
export { s, Schema } from "./schema.js";
export type { Infer, JsonSchema } from "./schema.js";
export { defineSkill, tool } from "./skill.js";
export type { Attachment, Context, Skill, Tool } from "./skill.js";
export { act, defineProvider } from "./provider.js";
export type * from "./provider.js";

export * as auth from "./auth.js";
export * as call from "./call.js";
export * as changes from "./workspace-changes.js";
export * as http from "./http.js";
export * as inference from "./inference.js";
export * as kv from "./kv.js";
export * as log from "./log.js";
export * as progress from "./progress.js";
export * as search from "./workspace-search.js";
export * as skillFiles from "./skill-files.js";
export * as toolCalls from "./tool-calls.js";
export * as toolIndex from "./tool-index.js";
export * as tools from "./tools.js";
export * as workspace from "./workspace.js";
