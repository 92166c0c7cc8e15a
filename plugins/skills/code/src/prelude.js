// The globals of a program. `native` has the functions that the skill implements in Rust. Everything that a program could
// replace is saved before it runs.
(native) => {
  "use strict";
  const { parse, stringify } = JSON;
  const { isView } = ArrayBuffer;
  const Buffer = ArrayBuffer;
  // JavaScript's strings can contain halves of characters, which other languages cannot read.
  const wellFormed = Function.prototype.call.bind(String.prototype.toWellFormed);

  class ToolError extends Error {
    constructor(tool) {
      super();
      this.tool = tool;
    }
    get name() {
      return "ToolError";
    }
  }

  // The error is created where the program makes the call, so it has that line and column.
  const pending = (tool, begin) => {
    const error = new ToolError(tool);
    return new Promise((resolve, reject) => {
      begin(resolve, (kind, message) => {
        error.kind = kind;
        error.message = message;
        reject(error);
      });
    });
  };

  const caller = (tool) => (input = {}) =>
    pending(tool, (resolve, reject) => {
      const json = stringify(input);
      if (json === undefined) throw new TypeError(`the input of ${tool} is no JSON value`);
      native.call(wellFormed(tool), json, resolve, reject);
    });

  const find = (query = "") =>
    pending("tools.find", (resolve, reject) => native.find(wellFormed(String(query)), resolve, reject));

  // An object whose properties are made by `get` and cannot be changed; its keys are the listed tools. It has no `then`, so a
  // promise can be resolved with it. The target stays extensible, because a proxy of a frozen object cannot report keys that the
  // object lacks.
  const names = (path, get) => {
    const value = (name) =>
      typeof name === "symbol" || name === "then" || name === "toJSON" ? undefined : get(name);
    const has = (_, name) => typeof name === "string" && native.isListed([...path, name]);
    const no = () => false;
    return new Proxy(Object.create(null), {
      get: (_, name) => value(name),
      has,
      ownKeys: () => native.names(path),
      getOwnPropertyDescriptor: (_, name) =>
        has(_, name) ? { value: value(name), enumerable: true, configurable: true, writable: false } : undefined,
      set: no,
      defineProperty: no,
      deleteProperty: no,
      preventExtensions: no,
      setPrototypeOf: no,
    });
  };

  const server = (name) => names(["mcp", name], (tool) => caller(`mcp__${name}__${tool}`));
  const tools = names([], (skill) => {
    if (skill === "find") return find;
    if (skill.includes("__")) return caller(skill);
    if (skill === "mcp") return names(["mcp"], server);
    return names([skill], (tool) => caller(`${skill}__${tool}`));
  });

  // The text for bytes, which are not shown; undefined for other values.
  const bytes = (value) => (isView(value) || value instanceof Buffer ? `[${value.byteLength} bytes]` : undefined);

  const plain = (_, value) => {
    if (typeof value === "bigint") return value.toString();
    if (value instanceof Map || value instanceof Set) return [...value];
    if (value instanceof Error) return explain(value)[0];
    return bytes(value) ?? value;
  };

  const text = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return explain(value)[0];
    const shown = bytes(value);
    if (shown !== undefined) return shown;
    try {
      return stringify(value, plain) ?? String(value);
    } catch (error) {
      return `[${error?.message}]`;
    }
  };

  // The text of an exception, its stack, and the kind and the tool of a failed call.
  const explain = (error) => {
    if (!(error instanceof Error)) return [wellFormed(`Uncaught ${text(error)}`), "", "", ""];
    const stack = typeof error.stack === "string" ? error.stack : "";
    const of = (name) => (error instanceof ToolError ? wellFormed(String(error[name] ?? "")) : "");
    return [wellFormed(`${error.name}: ${error.message}`), wellFormed(stack), of("kind"), of("tool")];
  };

  const jsonOfValue = (value) => {
    try {
      return stringify(value, plain);
    } catch (error) {
      throw new TypeError(`the value of the program cannot be shown as JSON: ${error?.message}`);
    }
  };

  // Converts a program's value: returns whether it is text, and the text or the JSON.
  const result = (value) => {
    if (value === undefined) return [false, ""];
    const shown = typeof value === "string" ? value : bytes(value);
    if (shown !== undefined) return [true, wellFormed(shown)];
    const json = typeof value === "function" || typeof value === "symbol" ? undefined : jsonOfValue(value);
    return json === undefined ? [true, wellFormed(String(value))] : [false, json];
  };

  const log = (...values) => native.log(wellFormed(values.map(text).join(" ")));
  const console = Object.freeze({ log, info: log, warn: log, error: log, debug: log });
  const fixed = (value) => ({ value, writable: false, configurable: false });
  Object.defineProperties(globalThis, { tools: fixed(tools), console: fixed(console) });
  // A program without an input can still read `input`.
  globalThis.input = undefined;

  return {
    explain,
    // A program ends with `{ value }`. If the value is a promise, as from `main()`, the program ends with it.
    finish: (program) => program.then(({ value }) => value).then(result),
    answer: (parts) => {
      const value = ([kind, content]) => (kind === "json" ? parse(content) : content);
      if (parts.length > 1 && parts.every(([kind]) => kind === "text")) return parts.map(([, content]) => content).join("\n");
      return parts.length === 1 ? value(parts[0]) : parts.map(value);
    },
  };
}
