// A counter in the key-value store. Capability: kv.
import { defineSkill, HostError, kv, s } from "patchbay-sdk";

export const skill = defineSkill({
  count: {
    description: "Adds one to a counter of the user and returns its new value.",
    input: s.object({ name: s.string("Name of the counter.", { minLength: 1 }) }),
    run({ name }) {
      // Another session may write between `entry` and `put`. In that case, `expect` makes `put` fail, and we try again.
      for (;;) {
        const entry = kv.user.entry(name);
        const value = entry ? Number(new TextDecoder().decode(entry.value)) + 1 : 1;
        try {
          kv.user.put(name, String(value), { expect: entry?.version ?? 0 });
          return { name, value };
        } catch (error) {
          if (!(error instanceof HostError && error.kind === "conflict")) throw error;
        }
      }
    },
  },
  counters: {
    description: "Lists the counters.",
    input: s.object({ prefix: s.string("Only names that begin with this.").default("") }),
    run: ({ prefix }) => kv.user.keys({ prefix }),
  },
});
