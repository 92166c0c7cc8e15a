// A tool that only computes: the same input always has the same result.
import { defineSkill, Failure, s } from "patchbay-sdk";

export const skill = defineSkill({
  stats: {
    description: "Returns the smallest, the largest and the mean of numbers, rounded.",
    readOnly: true,
    input: s.object({
      numbers: s.array(s.number(), "The numbers."),
      digits: s.integer("How many decimals the mean has.", { minimum: 0, maximum: 10 }).default(2),
    }),
    output: s.object({ min: s.number(), max: s.number(), mean: s.number() }),
    examples: [{ numbers: [1, 2, 4], digits: 1 }],
    run({ numbers, digits }) {
      if (numbers.length === 0) throw new Failure("invalid-input", "there are no numbers");
      const sum = numbers.reduce((total, number) => total + number, 0);
      return { min: Math.min(...numbers), max: Math.max(...numbers), mean: Number((sum / numbers.length).toFixed(digits)) };
    },
  },
});
