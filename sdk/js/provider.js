// A provider: an adapter to a language-model API, as a state machine without I/O.
import { describe } from "./failure.js";
import { array, bytes, enter, pairs } from "./host.js";
import { trap } from "./trap.js";

/** The actions of an adapter. A step returns an array of them. */
export const act = {
  /** Sends a request. `path` begins with '/' and is joined to the operator's base URL. */
  send: ({ method = "POST", path, headers, auth = [], body = [] }) => ({
    tag: "send",
    val: { method, pathAndQuery: path, headers: pairs("act.send: headers", headers), auth: Array.isArray(auth) ? auth : [auth], body: pieces(body) },
  }),
  waitMs: (milliseconds) => ({ tag: "wait-ms", val: milliseconds }),
  started: (model) => emit("started", model),
  blockStart: (index, kind, head) => emit("block-start", { index, kind: head === undefined ? { tag: kind } : { tag: kind, val: head } }),
  blockDelta: (index, text) => emit("block-delta", { index, text: text.toWellFormed() }),
  blockEnd: (index, opaque) => emit("block-end", { index, opaque: opaque ?? null }),
  usage: ({ inputTokens = 0, outputTokens = 0, thinkingTokens = 0, cacheReadTokens = 0, cacheWriteTokens = 0 }) =>
    emit("usage", { inputTokens, outputTokens, thinkingTokens, cacheReadTokens, cacheWriteTokens }),
  extra: (name, value) => emit("extra", { name, value }),
  /** Ends the completion. `stop`: `end-turn`, `tool-use`, `max-tokens` …; `raw`: the API's own value. */
  finish: (stop, raw = stop) => ({ tag: "finish", val: { stop, raw } }),
  /** Ends the completion with a failure. `retry`: `"never"`, `"backoff"`, or milliseconds. */
  fail: (kind, message, { httpStatus, code, retry = "never" } = {}) => ({
    tag: "fail",
    val: {
      kind,
      message: String(message).toWellFormed(),
      httpStatus: httpStatus ?? null,
      code: code ?? null,
      retry: typeof retry === "number" ? { tag: "after-ms", val: retry } : { tag: retry },
    },
  }),
};

const emit = (tag, val) => ({ tag: "emit", val: { tag, val } });

/** A body: a string, bytes, `{ blobBase64: id }`, or an array of these. */
const pieces = (body) =>
  (Array.isArray(body) ? body : [body]).map((piece) =>
    typeof piece?.blobBase64 === "number" ? { tag: "blob-base64", val: piece.blobBase64 } : { tag: "bytes", val: bytes("act.send: body", piece) },
  );

const MANIFEST = { modelPrefixes: [], models: [], defaultBaseUrl: null, credentials: [], extra: [] };
const MODEL = { size: "unknown", suggestedLevels: [], inputMedia: [], contextWindow: null, deprecated: false, extra: [] };
const CREDENTIAL = { scheme: "api-key", env: null, obtainUrl: null, extra: [] };

/**
 * Declares a provider: `export const adapter = defineProvider({ manifest, explainThinking, begin, resume })`. `begin`
 * and `resume` return arrays of actions; both can keep state in variables of the module, as each completion has a new
 * instance.
 */
export function defineProvider({ manifest, explainThinking, begin, resume }) {
  const described = complete(manifest);
  for (const [name, run] of Object.entries({ begin, resume })) {
    if (typeof run !== "function") throw new TypeError(`defineProvider: \`${name}\` must be a function, not ${describe(run)}`);
    if (run.constructor.name !== "Function") throw new TypeError(`defineProvider: \`${name}\` must not be async or a generator`);
  }
  return {
    describe() {
      enter();
      return described;
    },
    explainThinking(model, level) {
      return runStep("explainThinking", () => {
        const plan = explainThinking?.(model, level ?? undefined) ?? {};
        return { description: array("description", plan.description ?? ["Thinking: off"]), warning: plan.warning ?? null };
      });
    },
    begin: (request) => runStep("begin", () => actions(begin(request))),
    resume: (input) => runStep("resume", () => actions(resume(input))),
  };
}

function runStep(name, run) {
  enter();
  try {
    return run();
  } catch (error) {
    throw trap(`${name} of the provider threw`, error);
  }
}

const TAGS = ["send", "wait-ms", "emit", "finish", "fail"];

const actions = (list) => {
  if (!Array.isArray(list)) throw new TypeError(`it returned ${describe(list)}; return an array of actions, such as [act.finish("end-turn")]`);
  const bad = list.find((action) => !TAGS.includes(action?.tag));
  if (bad !== undefined || list.includes(undefined)) throw new TypeError(`it returned an array with ${describe(bad)}; use act.send(), act.blockDelta(), act.finish() and so on`);
  return list;
};

function complete(manifest) {
  const all = { ...MANIFEST, ...manifest };
  for (const name of ["name", "displayName", "version"]) {
    if (typeof all[name] !== "string") throw new TypeError(`defineProvider: manifest.${name} must be a string, not ${describe(all[name])}`);
  }
  return {
    ...all,
    models: all.models.map((model) => ({ ...MODEL, ...model, extra: pairs("manifest.models: extra", model.extra) })),
    credentials: all.credentials.map((item) => ({ ...CREDENTIAL, ...item, extra: pairs("manifest.credentials: extra", item.extra) })),
    extra: pairs("manifest.extra", all.extra),
  };
}
