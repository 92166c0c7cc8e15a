// One completion by the model of the agent that runs the tool. Needs the capability `inference`.
import { complete as send } from "patchbay:host/inference";
import { host, string } from "./host.js";

/** Returns the model's text. */
export function complete(prompt, { system = "" } = {}) {
  const words = [string("inference.complete: system", system), string("inference.complete: the prompt", prompt)];
  return host("inference.complete", () => send(...words));
}
