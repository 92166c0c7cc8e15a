import type { Result } from "./content.js";
import type { Schema } from "./schema.js";

/** A file that was attached to the call. */
export interface Attachment {
  mediaType: string;
  data: Uint8Array;
}

/** The context that a tool receives in addition to its input. */
export interface Context {
  tool: string;
  attachments: Attachment[];
}

/** One tool. */
export interface Tool<I> {
  /** What the tool does and when to use it, for models and users. */
  description: string;
  /** The schema of the input: `s.object({ … })`. The host has checked the input before `run`. */
  input: Schema<I>;
  /** Runs the tool. Not async: host functions return their results directly. */
  run: (input: I, context: Context) => Result;
  /** A human-readable title. */
  title?: string;
  /** The tool changes nothing. It is denied every capability with effects. */
  readOnly?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  openWorld?: boolean;
  /** Models do not see the tool at first; they find it with `find_tools`. */
  deferred?: boolean;
  kind?: "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "other";
  /** The schema of the JSON that the tool returns. */
  output?: Schema<any>;
  /** Example inputs, for models. */
  examples?: NoInfer<I>[];
  /** Other annotations. */
  extra?: Record<string, string>;
}

/** The export that the contract requires. */
export interface Skill {
  tools(): unknown[];
  call(tool: string, input: string, attachments: Attachment[]): unknown[];
}

/** Declares one tool, for tools that have a file of their own. */
export function tool<I>(definition: Tool<I>): Tool<I>;

/** Declares the tools of a skill, by their names: `export const skill = defineSkill({ hello: { … } })`. */
export function defineSkill<I extends Record<string, any>>(tools: { [K in keyof I]: Tool<I[K]> }): Skill;
