import { defineSkill, Failure, s } from "patchbay-sdk";

// Each property is a tool; its name is what models and `patchbay plugin call` use.
export const skill = defineSkill({
  hello: {
    // Models choose tools by their descriptions.
    description: "Greets a person by name.",
    // The host checks the input against this schema before `run`.
    input: s.object({ name: s.string("Name of the person to greet.") }),
    // Not async: host functions such as kv.user.get() return their results directly.
    run({ name }) {
      // An expected failure has a kind for programs and a message for people. Any other error is a bug and traps.
      if (name.trim() === "") throw new Failure("invalid-input", "the name is empty");
      // A string is text, an object is JSON. console.log() writes to the plugin's log.
      return `Hello, ${name}!`;
    },
  },
});
