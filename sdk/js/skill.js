// A skill: tools by their names, as the export that the contract requires.
import { contents } from "./content.js";
import { Failure, describe, failureOf } from "./failure.js";
import { enter } from "./host.js";
import { Schema } from "./schema.js";
import { bug, trap } from "./trap.js";

const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const DIRECT = "Host functions return their results directly";
const FLAGS = { readOnly: "read-only", destructive: "destructive", idempotent: "idempotent", deferred: "deferred", openWorld: "open-world" };
const KNOWN = new Set(["description", "input", "output", "run", "title", "kind", "examples", "extra", ...Object.keys(FLAGS)]);

/** Declares one tool, for tools that have a file of their own. In `defineSkill` a plain object does the same. */
export const tool = (definition) => definition;

/**
 * Declares the tools of a skill: `export const skill = defineSkill({ hello: { description, input, run } })`. Mistakes in
 * the declaration fail the build.
 */
export function defineSkill(tools) {
  if (typeof tools !== "object" || tools === null || Object.keys(tools).length === 0) {
    throw new TypeError("defineSkill needs an object of tools: defineSkill({ hello: { description, input, run } })");
  }
  const declared = Object.entries(tools).map(([name, definition]) => declare(name, definition));
  return {
    tools() {
      enter();
      return declared;
    },
    call(name, input, attachments) {
      enter();
      if (!Object.hasOwn(tools, name)) {
        throw { kind: "unknown-tool", message: `this skill has no tool '${name}'; it has ${Object.keys(tools).join(", ")}` };
      }
      return runTool(name, tools[name], input, attachments);
    },
  };
}

function runTool(name, definition, input, attachments) {
  let value;
  try {
    value = definition.run(definition.input.parse(JSON.parse(input)), { tool: name, attachments });
  } catch (error) {
    throw failureOf(error) ?? trap(`tool '${name}' threw`, error);
  }
  if (value instanceof Failure) throw bug(`tool '${name}' returned a Failure; write \`throw new Failure(…)\``);
  if (typeof value?.then === "function") {
    throw bug(`tool '${name}' returned a promise; tools are not async: remove \`async\` and \`await\`. ${DIRECT}`);
  }
  try {
    return contents(value);
  } catch (error) {
    throw bug(`tool '${name}' returned ${error.message}`);
  }
}

/** Returns the declaration of a tool for the host; throws if the host would reject it or the author would miss a mistake. */
function declare(name, definition) {
  const fail = (message) => {
    throw new TypeError(`tool '${name}': ${message}`);
  };
  if (!NAME.test(name) || name.includes("__")) fail("invalid name; use 1 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or digit, without '__'");
  if (typeof definition !== "object" || definition === null) fail(`it must be an object { description, input, run }, not ${describe(definition)}`);
  const unknown = Object.keys(definition).find((key) => !KNOWN.has(key));
  if (unknown) fail(`unknown property '${unknown}'; known are ${[...KNOWN].join(", ")}`);
  const { description, input, run } = definition;
  if (typeof description !== "string" || description.trim() === "") fail("it needs a `description`: models choose tools by it");
  if (!(input instanceof Schema)) fail("`input` must be a schema: s.object({ name: s.string(\"…\") }), or s.raw({ … }) for a JSON Schema");
  if (input.toJSON().type !== "object") fail("`input` must describe an object: use s.object({ … })");
  if (typeof run !== "function") fail(`\`run\` must be a function of the input, not ${describe(run)}`);
  if (/^(Async|AsyncGenerator|Generator)Function$/.test(run.constructor?.name)) {
    fail("`run` must not be async or a generator: remove `async`, `await` and `*`. " + DIRECT);
  }
  return { name, description, inputSchema: JSON.stringify(input), extra: annotations(definition, fail) };
}

function annotations(definition, fail) {
  const extra = [];
  const add = (name, value) => extra.push({ name, value });
  for (const word of ["title", "kind"]) {
    if (definition[word] !== undefined) add(word, String(definition[word]));
  }
  for (const [key, name] of Object.entries(FLAGS)) {
    if (definition[key] === undefined) continue;
    if (typeof definition[key] !== "boolean") fail(`\`${key}\` must be true or false, not ${describe(definition[key])}`);
    add(name, String(definition[key]));
  }
  if (definition.output !== undefined) {
    if (!(definition.output instanceof Schema)) fail("`output` must be a schema");
    add("output-schema", JSON.stringify(definition.output));
  }
  if (definition.examples !== undefined) add("examples", JSON.stringify(definition.examples));
  for (const [key, value] of Object.entries(definition.extra ?? {})) add(key, String(value));
  return extra;
}
