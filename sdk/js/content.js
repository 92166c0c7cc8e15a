// Converts the values that a tool returns into a list of contents.
import { describe } from "./failure.js";
import { bytes, string } from "./host.js";

/** One piece of a result. */
class Content {
  constructor(tag, val) {
    this.tag = tag;
    this.val = val;
  }
}

/** Text. A tool can also return the string itself. */
export const text = (value) => new Content("text", string("text(value): the value", value));

/** A JSON value. A tool can also return the object itself. */
export const json = (value) => new Content("json", stringify(value));

/** Bytes with their media type, such as an image. */
export const blob = (mediaType, data) =>
  new Content("blob", { mediaType: string("blob(mediaType, data): the media type", mediaType), data: bytes("blob(mediaType, data): the data", data) });

/** A link to a file of the workspace, by its path. */
export const link = (path, mediaType = "application/octet-stream") =>
  new Content("link", { path: string("link(path, mediaType): the path", path), mediaType: string("link(path, mediaType): the media type", mediaType) });

/** Returns the contents for a tool's return value. */
export function contents(value) {
  if (Array.isArray(value) && value.some((item) => item instanceof Content)) return value.map(one);
  return [one(value)];
}

const one = (value) => {
  if (value instanceof Content) return value;
  return typeof value === "string" ? text(value) : json(value);
};

/** Returns `value` as JSON, or throws an error that suggests an alternative. */
export function stringify(value) {
  const advice = wrong(value);
  if (advice) throw new TypeError(`${describe(value)}; ${advice}`);
  let encoded;
  try {
    encoded = JSON.stringify(value, (key, item) => {
      const bad = wrong(item, true);
      if (bad) throw new TypeError(`a value in which '${key}' is ${describe(item)}; ${bad}`);
      return item;
    });
  } catch (error) {
    if (/circular/i.test(error.message)) throw new TypeError("an object that contains itself; JSON cannot hold that");
    throw error;
  }
  if (encoded === undefined) throw new TypeError(`${describe(value)}, which has no JSON form`);
  // JSON.stringify escapes lone surrogates, which most JSON parsers reject: replace them, and keep other escapes.
  return encoded.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.length === 6 ? "\ufffd" : escape));
}

/** Returns a suggestion if `value` has no JSON form, or `undefined` if it has one. */
function wrong(value, nested = false) {
  if (typeof value === "bigint") return "convert it: Number(n) or String(n)";
  if (typeof value === "number" && !Number.isFinite(value)) return "JSON has no such number: use null or a string";
  if (value instanceof Map) return "use Object.fromEntries(map)";
  if (value instanceof Set) return "use [...set]";
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return "use blob(mediaType, bytes) for bytes";
  if (typeof value?.then === "function") return "use values, not promises: a tool is not async, and host functions return their results directly";
  if (value instanceof Content && nested) return "put contents into the array that the tool returns, not into an object";
  if (nested) return undefined;
  if (value === undefined) return "return a string, an object, or text(), json(), blob() or link(); is a `return` missing?";
  if (typeof value === "function" || typeof value === "symbol") return "return a string or an object";
  return undefined;
}
