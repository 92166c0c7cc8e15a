// The skill `same` in TypeScript. skill.rs says what each tool does.
import { blob, defineSkill, Failure, json, link, s, text } from "patchbay-sdk";

const input = s.object({ text: s.string() });
const safe = s.integer(undefined, { minimum: -9007199254740991, maximum: 9007199254740991 });
const digits = s.string(undefined, { pattern: "^-?[0-9]{1,19}$" });
const tooLarge = () => new Failure("overflow", "the sum is too large");

function read(digits: string): bigint {
  const number = BigInt(digits);
  if (BigInt.asIntN(64, number) !== number) throw new Failure("overflow", `${digits} has more than 64 bits`);
  return number;
}

export const skill = defineSkill({
  echo: { description: "Returns the text.", input, run: ({ text }) => text },
  wrap: {
    description: "Returns the text as a key and a value of JSON.",
    input,
    run: ({ text }) => ({ list: [null, true, false, [], {}, "", text], text: { [text]: "key" } }),
  },
  measure: {
    description: "Counts bytes and code points, and hashes the bytes.",
    input,
    run({ text }) {
      const bytes = new TextEncoder().encode(text);
      let hash: number = 2166136261;
      for (const byte of bytes) hash = Math.imul(hash ^ byte, 16777619);
      return { bytes: bytes.length, hash: hash >>> 0, points: [...text].length };
    },
  },
  add: {
    description: "Adds two integers.",
    input: s.object({ a: safe, b: safe }),
    run({ a, b }) {
      if (!Number.isSafeInteger(a + b)) throw tooLarge();
      return { sum: a + b };
    },
  },
  add64: {
    description: "Adds two integers of 64 bits that are written as strings.",
    input: s.object({ a: digits, b: digits }),
    run({ a, b }) {
      const sum = read(a) + read(b);
      if (BigInt.asIntN(64, sum) !== sum) throw tooLarge();
      return String(sum);
    },
  },
  pieces: {
    description: "Returns one content of each kind.",
    input,
    run: (given) => [text(given.text), json(given.text), blob("text/x-same", given.text), link("a/b.txt", "text/plain")],
  },
  fail: {
    description: "Fails.",
    input: s.object({ kind: s.string(), message: s.string() }),
    run({ kind, message }) {
      throw new Failure(kind, message);
    },
  },
});
