export interface Pair { name: string; value: string }
type Pairs = Record<string, string> | Pair[];

export interface Model {
  id: string;
  size?: "small" | "normal" | "large" | "unknown";
  suggestedLevels?: ("none" | "low" | "med" | "high")[];
  /** Media types that a message may contain, such as `image/png`. */
  inputMedia?: string[];
  contextWindow?: number;
  deprecated?: boolean;
  extra?: Pairs;
}
export interface Credential { id: string; scheme?: string; env?: string; obtainUrl?: string; extra?: Pairs }
export interface Manifest {
  name: string;
  displayName: string;
  version: string;
  /** `claude-` matches every model that begins with it; `o3` only `o3` and `o3-…`. */
  modelPrefixes?: string[];
  models?: Model[];
  defaultBaseUrl?: string;
  /** At most one. */
  credentials?: Credential[];
  extra?: Pairs;
}
export interface ThinkingPlan { description?: string[]; warning?: string }

export interface BlobRef { id: number; mediaType: string; name?: string; size: number }
export type Piece = { tag: "text"; val: string } | { tag: "blob"; val: BlobRef };
export interface ToolCall { id: string; name: string; input: string }
export interface ToolResult { callId: string; name: string; content: Piece[]; isError: boolean }
export type Block =
  | Piece
  | { tag: "thinking"; val: string }
  | { tag: "tool-call"; val: ToolCall }
  | { tag: "tool-result"; val: ToolResult }
  | { tag: "opaque"; val: string };
export interface Part { block: Block; opaque?: string }
export interface Message { role: "user" | "assistant"; parts: Part[] }
export interface ProviderTool { name: string; description: string; inputSchema: string }
export type ToolChoice = { tag: "auto" | "none" | "required" } | { tag: "named"; val: string };

/** A completion to make. The comments in wit/deps/provider/provider.wit are the reference. */
export interface CompletionRequest {
  model: string;
  system: string[];
  messages: Message[];
  tools: ProviderTool[];
  toolChoice: ToolChoice;
  thinking?: string;
  maxOutputTokens?: number;
  options: Pair[];
}

/** An event of the pending request or timer. */
export type Input =
  | { tag: "response-head"; val: { status: number; headers: Pair[] } }
  | { tag: "body-chunk"; val: Uint8Array }
  | { tag: "body-end" }
  | { tag: "transport-failed"; val: { kind: string; message: string } }
  | { tag: "timer" };

declare const action: unique symbol;
/** The next step of the host, made by `act`. */
export interface Action { readonly [action]: true }

export type Auth = import("./auth.js").Auth;
export type BodyPiece = string | Uint8Array | { blobBase64: number };
export type FailureKind =
  | "authentication" | "rate-limit" | "invalid-request" | "not-found" | "server" | "timeout" | "content-filter" | "network" | "unknown";

/** The actions of an adapter. */
export const act: {
  /** Sends a request. `path` begins with `/` and is joined to the operator's base URL. */
  send(request: { path: string; method?: string; headers?: Pairs; auth?: Auth | Auth[]; body?: BodyPiece | BodyPiece[] }): Action;
  waitMs(milliseconds: number): Action;
  started(model: string): Action;
  /** Blocks are numbered from 0; each is started once and ended once. */
  blockStart(index: number, kind: "text" | "thinking"): Action;
  blockStart(index: number, kind: "tool-call", head: { id: string; name: string }): Action;
  blockStart(index: number, kind: "opaque", data: string): Action;
  blockDelta(index: number, text: string): Action;
  blockEnd(index: number, opaque?: string): Action;
  /** Cumulative: the last one counts. */
  usage(tokens: {
    inputTokens?: number;
    outputTokens?: number;
    thinkingTokens?: number;
    cacheReadTokens?: number;
    cacheWriteTokens?: number;
  }): Action;
  extra(name: string, value: string): Action;
  finish(stop: "end-turn" | "tool-use" | "max-tokens" | "context-window" | "refusal" | "content-filter" | "other", raw?: string): Action;
  fail(
    kind: FailureKind,
    message: string,
    options?: { httpStatus?: number; code?: string; retry?: "never" | "backoff" | number },
  ): Action;
};

/** The export that the contract requires. */
export interface Adapter {
  describe(): unknown;
  explainThinking(model: string, level?: string): unknown;
  begin(request: CompletionRequest): unknown[];
  resume(input: Input): unknown[];
}

/** Declares a provider: `export const adapter = defineProvider({ manifest, begin, resume })`. */
export function defineProvider(provider: {
  manifest: Manifest;
  /** Describes a thinking level for the user. Must match the request that `begin` sends. */
  explainThinking?: (model: string, level: string | undefined) => ThinkingPlan;
  /** Begins the completion. Not async. */
  begin: (request: CompletionRequest) => Action[];
  /** Continues with the next input. */
  resume: (input: Input) => Action[];
}): Adapter;
