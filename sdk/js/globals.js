// Globals that authors expect and QuickJS lacks. Globals that cannot work in the sandbox throw an explanation.
import { write } from "patchbay:host/log";
import { isRunning } from "./host.js";
import { decode, encode, incomplete } from "./utf8.js";
import { URL, URLSearchParams } from "./url.js";

const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });

/** Defines a function that throws an error with an alternative. */
const refuse = (name, advice) =>
  define(name, function () {
    throw new Error(`${name} is not available in a plugin: ${advice}`);
  });

// Console: lines go to the log of the plugin. While the plugin is built there is no log, and they are dropped.

const show = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value.name}: ${value.message}\n${value.stack ?? ""}`.trimEnd();
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value, (_, item) =>
      typeof item === "bigint" ? `${item}n` : item instanceof Map ? Object.fromEntries(item) : item instanceof Set ? [...item] : item,
    );
  } catch {
    return String(value);
  }
};

const logger = (level) => (...values) => {
  if (isRunning()) write(level, values.map(show).join(" ").toWellFormed());
};

define("console", {
  debug: logger("debug"),
  trace: logger("debug"),
  log: logger("info"),
  info: logger("info"),
  warn: logger("warn"),
  error: logger("error"),
  assert: (condition, ...values) => condition || logger("error")("Assertion failed:", ...values),
});

// Text

class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(input = "") {
    return encode(String(input));
  }
}

class TextDecoder {
  #fatal;
  #ignoreBom;
  #rest = new Uint8Array(0);
  #begun = false;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^\s*utf-?8\s*$/i.test(label)) throw new RangeError(`TextDecoder: only utf-8 is available in a plugin, not '${label}'`);
    this.#fatal = fatal;
    this.#ignoreBom = ignoreBOM;
  }

  get encoding() {
    return "utf-8";
  }

  decode(input = new Uint8Array(0), { stream = false } = {}) {
    const view = ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
    const bytes = new Uint8Array(this.#rest.length + view.length);
    bytes.set(this.#rest);
    bytes.set(view, this.#rest.length);
    const kept = stream ? incomplete(bytes) : 0;
    this.#rest = bytes.slice(bytes.length - kept);
    let text = decode(bytes.subarray(0, bytes.length - kept), this.#fatal);
    if (!this.#begun && !this.#ignoreBom && text.startsWith("\ufeff")) text = text.slice(1);
    this.#begun = stream && (this.#begun || text !== "");
    return text;
  }
}

define("TextEncoder", TextEncoder);
define("TextDecoder", TextDecoder);
define("URL", URL);
define("URLSearchParams", URLSearchParams);

// Globals that cannot work: calls are deterministic unless the contract says otherwise, and nothing runs after a call.

const loop = "it has no event loop, and nothing runs after the call. Call host functions directly: they return their results";
for (const name of ["setTimeout", "setInterval", "setImmediate", "queueMicrotask"]) refuse(name, loop);
define("clearTimeout", () => {});
define("clearInterval", () => {});
refuse("fetch", 'use `import { http } from "patchbay-sdk"` and http.get(url); it needs the capability http:HOST in SKILL.md');

const clock = "it has no clock, so that a call gives the same result each time. Pass the time in the tool's input, or read it from an HTTP response";
const random = "it has no random numbers, so that a call gives the same result each time. For a unique id use call.info().id";

const NativeDate = Date;
class SandboxDate extends NativeDate {
  constructor(...values) {
    if (values.length === 0) throw new Error(`new Date() is not available in a plugin: ${clock}`);
    super(...values);
  }

  static now() {
    throw new Error(`Date.now() is not available in a plugin: ${clock}`);
  }
}
Object.defineProperty(SandboxDate, "name", { value: "Date" });
define("Date", SandboxDate);
define("performance", { now: () => { throw new Error(`performance.now() is not available in a plugin: ${clock}`); } });
Math.random = () => {
  throw new Error(`Math.random() is not available in a plugin: ${random}`);
};
const noCrypto = (name) => () => {
  throw new Error(`crypto.${name}() is not available in a plugin: ${random}`);
};
define("crypto", { getRandomValues: noCrypto("getRandomValues"), randomUUID: noCrypto("randomUUID") });
