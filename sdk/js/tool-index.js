// The tools that this call may call. Needs the capability `tools`.
import * as raw from "patchbay:host/tool-index";
import { fromPairs, host, optional, paged, string, u32 } from "./host.js";

const readable = ({ name, description, inputSchema, extra }) => ({
  name,
  description,
  inputSchema: JSON.parse(inputSchema),
  extra: fromPairs(extra),
});

/** Returns one page of tools, sorted by name. */
export function list({ after, limit = 100 } = {}) {
  const [from, most] = [optional(string, "toolIndex.list: after", after), u32("toolIndex.list: limit", limit)];
  return host("toolIndex.list", () => raw.entries(from, most)).map(readable);
}

/** Yields all tools. */
export const entries = () => paged((after) => list({ after }), "name");

/** Returns the tools that match `query` best, the best first. */
export function find(query, { limit = 10 } = {}) {
  const [words, most] = [string("toolIndex.find: the query", query), u32("toolIndex.find: limit", limit)];
  return host("toolIndex.find", () => raw.find(words, most)).map(readable);
}
