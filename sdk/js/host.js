// Shared by all modules with host functions. QuickJS traps without a message if a host function receives a value of the
// wrong type, so arguments are checked here, in JavaScript.
import { HostError, describe } from "./failure.js";
import { encode } from "./utf8.js";

let running = false;

/** Records that the host runs the component: from now on host functions exist. */
export const enter = () => {
  running = true;
};

/** Returns whether the host runs the component. Code outside functions runs while the plugin is built. */
export const isRunning = () => running;

/** Calls a host function; an error that it returns becomes a `HostError`. */
export function host(name, run) {
  if (!running) {
    throw new Error(
      `${name} is not available while the plugin is being built. Code outside of functions runs then: call ${name} inside a tool.`,
    );
  }
  try {
    return run();
  } catch (error) {
    if (typeof error?.payload?.kind !== "string") throw error;
    throw new HostError(error.payload.kind, error.payload.message);
  }
}

const wrong = (what, expected, value) => {
  throw new TypeError(`${what} must be ${expected}, not ${describe(value)}`);
};

/** Returns `value` if it is a string, and replaces lone surrogates, which UTF-8 cannot represent. */
export const string = (what, value) =>
  typeof value === "string" ? value.toWellFormed() : wrong(what, "a string", value);

/** Returns `value`, or null if it is absent. */
export const optional = (check, what, value) => (value === undefined || value === null ? null : check(what, value));

export const boolean = (what, value) => (typeof value === "boolean" ? value : wrong(what, "true or false", value));

const integer = (max, words) => (what, value) =>
  Number.isInteger(value) && value >= 0 && value <= max ? value : wrong(what, words, value);

export const u32 = integer(0xffffffff, "an integer from 0 to 4294967295");
export const u64 = integer(Number.MAX_SAFE_INTEGER, "an integer from 0 to 2^53 - 1");

/** Returns one of `values`. */
export const oneOf = (what, value, values) =>
  values.includes(value) ? value : wrong(what, values.map((word) => `"${word}"`).join(" or "), value);

/** Returns bytes: a string becomes UTF-8. */
export function bytes(what, value) {
  if (typeof value === "string") return encode(value);
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return wrong(what, "a string or a Uint8Array", value);
}

export const array = (what, value) => (Array.isArray(value) ? value : wrong(what, "an array", value));

export const strings = (what, value) => array(what, value).map((item) => string(`each item of ${what}`, item));

/** Returns pairs from an object, from `[name, value]` entries, or from pairs. */
export function pairs(what, value) {
  if (value === undefined || value === null) return [];
  if (typeof value !== "object") wrong(what, "an object of strings", value);
  const entries = Array.isArray(value)
    ? value.map((pair) => (Array.isArray(pair) ? pair : [pair?.name, pair?.value]))
    : Object.entries(value);
  return entries.map(([name, content]) => ({
    name: string(`each name of ${what}`, name),
    value: string(`${what}: '${name}'`, content),
  }));
}

/** Converts the host's pairs to an object; if a name occurs twice, the later pair counts. */
export const fromPairs = (list) => Object.fromEntries(list.map(({ name, value }) => [name, value]));

/** Yields all items of a listing that the host returns in pages. */
export function* paged(page, key) {
  let after;
  for (;;) {
    const items = page(after);
    if (items.length === 0) return;
    yield* items;
    after = items.at(-1)[key];
  }
}
