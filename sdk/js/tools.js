// Calls to other tools of the session. Needs the capability `tools`.
import { call as send } from "patchbay:host/tools";
import { host, string } from "./host.js";
import { stringify } from "./content.js";

/** Calls a tool by its full name, such as `SKILL__TOOL`. Returns its result as text. */
export function call(tool, input = {}) {
  const name = string("tools.call: the tool", tool);
  const json = stringify(input);
  return host("tools.call", () => send(name, json));
}
