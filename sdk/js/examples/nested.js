// Calls other tools. Capability: tools.
import { defineSkill, s, toolCalls, toolIndex, tools } from "patchbay-sdk";

export const skill = defineSkill({
  "greet-all": {
    description: "Greets several people with a tool of another skill.",
    input: s.object({
      names: s.array(s.string(), "Names of the people to greet.", { minItems: 1 }),
      tool: s.string("Full name of a tool with an input `name`.").default("hello-js__hello"),
    }),
    run({ names, tool }) {
      // In parallel, at most eight at a time; the outcomes are in the order of the names.
      const outcomes = toolCalls.all(names.map((name) => ({ tool, input: { name } })));
      return outcomes.map((outcome) => (outcome.error ? `failed: ${outcome.error.message}` : toolCalls.textOf(outcome))).join("\n");
    },
  },
  first: {
    description: "Finds the best tool for words, and calls it with a name.",
    input: s.object({ query: s.string("What the tool should do."), name: s.string("The name to pass.") }),
    run({ query, name }) {
      const [tool] = toolIndex.find(query, { limit: 1 });
      return tool ? tools.call(tool.name, { name }) : "no tool found";
    },
  },
});
