// The guest in JavaScript: the tools that need nothing of WASI.
import kv from "patchbay:host/kv";

const text = (val) => [{ tag: "text", val }];
export const json = (value) => [{ tag: "json", val: JSON.stringify(value) }];

const fails = (kind, message) => {
  throw { kind, message };
};

// The engine has neither TextEncoder nor TextDecoder; text as bytes is what stands behind the percent signs of a URL.
const encode = (string) => Uint8Array.from(unescape(encodeURIComponent(string)), (byte) => byte.charCodeAt(0));
const decode = (bytes) =>
  decodeURIComponent(Array.from(bytes, (byte) => "%" + byte.toString(16).padStart(2, "0")).join(""));

const stats = (string) => ({
  bytes: unescape(encodeURIComponent(string)).length,
  lines: string.split("\n").length - (string === "" || string.endsWith("\n") ? 1 : 0),
  words: string.match(/[^ \t-\r]+/g)?.length ?? 0,
});

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

const string = (description) => ({ type: "string", description });

export const tools = {
  echo: {
    description: "Gives back the text.",
    properties: { text: string("What comes back.") },
    run: (input) => text(input.text),
  },
  stats: {
    description: "Counts bytes, lines and words.",
    properties: { text: string("What is counted.") },
    run: (input) => json(stats(input.text)),
  },
  fail: {
    description: "Fails.",
    properties: { message: string("Why.") },
    run: (input) => fails("failed", input.message),
  },
  store: {
    description: "Puts a value into the store of the user, and reads it back.",
    properties: { key: string("Where."), value: string("What.") },
    run: (input) => store(input.key, input.value),
  },
};

export const skillOf = (tools) => ({
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
});

export const skill = skillOf(tools);
