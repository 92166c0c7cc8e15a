import { act, auth, defineProvider } from "patchbay-sdk";

// An adapter to an API in the style of OpenAI's Chat Completions, for text. Replace the four functions below to suit your
// API. The host does all I/O: it joins the paths to the operator's base URL and adds the secret.

// Each completion has a new instance, so its state can be in variables.
const decoder = new TextDecoder();
let status = 0;
let buffer = "";
let started = false;
let stop = "";

export const adapter = defineProvider({
  manifest: {
    name: "{{name}}",
    displayName: "{{name}}",
    version: "0.1.0",
    modelPrefixes: ["{{name}}-"],
    models: [{ id: "{{name}}-1", size: "normal" }],
    defaultBaseUrl: "https://api.example.com/v1",
    credentials: [{ id: "api-key", env: "EXAMPLE_API_KEY" }],
  },

  begin(request) {
    const body = {
      model: request.model,
      messages: [
        ...request.system.map((content) => ({ role: "system", content })),
        ...request.messages.map(({ role, parts }) => ({ role, content: parts.map(textOf).join("") })),
      ],
      max_tokens: request.maxOutputTokens,
      stream: true,
    };
    return [
      act.send({
        path: "/chat/completions",
        headers: { "content-type": "application/json" },
        auth: auth.bearer("api-key"),
        body: JSON.stringify(body),
      }),
    ];
  },

  // Chunks end anywhere, even inside a character or a line.
  resume(input) {
    switch (input.tag) {
      case "response-head":
        status = input.val.status;
        return [];
      case "body-chunk":
        buffer += decoder.decode(input.val, { stream: true });
        return status === 200 ? events() : [];
      case "body-end":
        return status === 200 ? end() : [refused()];
      case "transport-failed":
        return [act.fail("network", input.val.message, { retry: "backoff" })];
      default:
        return [];
    }
  },
});

/** @param {import("patchbay-sdk").Part} part */
const textOf = ({ block }) => (block.tag === "text" ? block.val : "");

/** Returns actions for the complete lines in the buffer. */
function events() {
  const actions = [];
  const lines = buffer.split("\n");
  buffer = lines.pop() ?? "";
  for (const line of lines) {
    const data = line.startsWith("data:") ? line.slice(5).trim() : "";
    if (data === "" || data === "[DONE]") continue;
    const { model, choices } = JSON.parse(data);
    if (!started) {
      started = true;
      actions.push(act.started(model), act.blockStart(0, "text"));
    }
    const text = choices?.[0]?.delta?.content;
    if (text) actions.push(act.blockDelta(0, text));
    stop = choices?.[0]?.finish_reason ?? stop;
  }
  return actions;
}

function end() {
  if (!started) return [act.fail("server", "the response has no events", { retry: "backoff" })];
  return [act.blockEnd(0), act.finish(stop === "length" ? "max-tokens" : "end-turn", stop || "end")];
}

/** Returns the failure for the status of a response. The kind tells the host whether to try again. */
function refused() {
  const message = `HTTP ${status}: ${buffer.slice(0, 300)}`;
  if (status === 401 || status === 403) return act.fail("authentication", message, { httpStatus: status });
  if (status === 429) return act.fail("rate-limit", message, { httpStatus: status, retry: "backoff" });
  if (status >= 500) return act.fail("server", message, { httpStatus: status, retry: "backoff" });
  return act.fail("invalid-request", message, { httpStatus: status });
}
