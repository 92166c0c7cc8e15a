// The guest that imports WASI: one tool more, which would trap where WASI is stubbed.
import { json, skillOf, tools } from "./guest.js";

// The engine has a clock and random numbers. What else a script may look for, it looks for by its usual name.
const attempt = (look) => {
  try {
    return look() ?? null;
  } catch (error) {
    return { error: String(error) };
  }
};

const nanoseconds = (milliseconds) => Math.round(milliseconds * 1e6);
const hex = () => Math.floor(Math.random() * 256).toString(16).padStart(2, "0");
const random = () => Array.from({ length: 16 }, hex).join("");

const look = () => ({
  globals: Object.getOwnPropertyNames(globalThis),
  environment: attempt(() => Object.keys(process.env)),
  arguments: attempt(() => process.argv),
  directory: attempt(() => process.cwd()),
  list: attempt(() => require("fs").readdirSync(".")),
  open: attempt(() => require("fs").readFileSync("/etc/passwd", "utf8")),
  create: attempt(() => require("fs").writeFileSync("made-by-a-guest", "text")),
  wall_ns: attempt(() => [nanoseconds(Date.now()), nanoseconds(Date.now())]),
  monotonic_ns: attempt(() => [nanoseconds(performance.now()), nanoseconds(performance.now())]),
  random: attempt(() => [random(), random()]),
  connect: attempt(() => require("net").connect(80, "127.0.0.1")),
  listen: attempt(() => require("net").createServer().listen(0, "127.0.0.1")),
  resolve: attempt(() => fetch("http://localhost/")),
  stdin: attempt(() => require("fs").readFileSync(0, "utf8")),
  stdout: attempt(() => console.log("a line to stdout")),
  stderr: attempt(() => console.error("a line to stderr")),
});

export const skill = skillOf({
  ...tools,
  surroundings: {
    description: "Tells what is seen of the world. Each is a value, or an object with the text of an `error`.",
    properties: {},
    run: () => json(look()),
  },
});
