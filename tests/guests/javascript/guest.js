// The guest in JavaScript, with WASI: what a script finds of the world, and a host call.
import kv from "patchbay:host/kv";

const text = (val) => [{ tag: "text", val }];
const json = (value) => [{ tag: "json", val: JSON.stringify(value) }];

const fails = (kind, message) => {
  throw { kind, message };
};

// The engine has neither TextEncoder nor TextDecoder; text as bytes is what stands behind the percent signs of a URL.
const encode = (string) => Uint8Array.from(unescape(encodeURIComponent(string)), (byte) => byte.charCodeAt(0));
const decode = (bytes) =>
  decodeURIComponent(Array.from(bytes, (byte) => "%" + byte.toString(16).padStart(2, "0")).join(""));

const store = (key, value) => {
  let entry;
  try {
    kv.put("user", key, encode(value), null);
    entry = kv.get("user", key);
  } catch (error) {
    // An error of the host stands in `payload`; anything else is a fault of this guest.
    if (error.payload === undefined) throw error;
    fails(error.payload.kind, error.payload.message);
  }
  return entry ? text(decode(entry.value)) : fails("failed", "what was put is not there");
};

// The engine has a clock and random numbers. What else a script may look for, it looks for by its usual name.
const attempt = (look) => {
  try {
    return look() ?? null;
  } catch (error) {
    return { error: String(error) };
  }
};

const nanoseconds = (milliseconds) => Math.round(milliseconds * 1e6);
const hex = () => Math.floor(Math.random() * 256).toString(16).padStart(2, "0");
const random = () => Array.from({ length: 16 }, hex).join("");

const look = () => ({
  globals: Object.getOwnPropertyNames(globalThis),
  environment: attempt(() => Object.keys(process.env)),
  arguments: attempt(() => process.argv),
  directory: attempt(() => process.cwd()),
  list: attempt(() => require("fs").readdirSync(".")),
  open: attempt(() => require("fs").readFileSync("/etc/passwd", "utf8")),
  create: attempt(() => require("fs").writeFileSync("made-by-a-guest", "text")),
  wall_ns: attempt(() => [nanoseconds(Date.now()), nanoseconds(Date.now())]),
  monotonic_ns: attempt(() => [nanoseconds(performance.now()), nanoseconds(performance.now())]),
  random: attempt(() => [random(), random()]),
  connect: attempt(() => require("net").connect(80, "127.0.0.1")),
  listen: attempt(() => require("net").createServer().listen(0, "127.0.0.1")),
  resolve: attempt(() => fetch("http://localhost/")),
  stdin: attempt(() => require("fs").readFileSync(0, "utf8")),
  stdout: attempt(() => console.log("a line to stdout")),
  stderr: attempt(() => console.error("a line to stderr")),
});

const string = (description) => ({ type: "string", description });

const tools = {
  store: {
    description: "Puts a value into the store of the user, and reads it back.",
    properties: { key: string("Where."), value: string("What.") },
    run: (input) => store(input.key, input.value),
  },
  surroundings: {
    description: "Tells what is seen of the world. Each is a value, or an object with the text of an `error`.",
    properties: {},
    run: () => json(look()),
  },
};

export const skill = {
  tools: () =>
    Object.entries(tools).map(([name, { description, properties }]) => {
      const required = Object.keys(properties);
      const schema = { type: "object", properties, required, additionalProperties: false };
      return { name, description, inputSchema: JSON.stringify(schema), extra: [] };
    }),
  call: (name, input) => {
    const tool = Object.hasOwn(tools, name) ? tools[name] : fails("unknown-tool", `this skill has no tool '${name}'`);
    return tool.run(JSON.parse(input));
  },
};
