#!/usr/bin/env node
// Starts the program of the platform's package, passes signals on, and ends as the program ended.
"use strict";
const { spawn } = require("node:child_process");

const name = `@NAME@-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/patchbay`);
} catch {
  console.error(`Error: the npm package ${name} is not installed. Either there is no Patchbay for this system, or optional`);
  console.error("dependencies were left out: install again without --omit=optional or --no-optional.");
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit", argv0: "patchbay" });
child.on("error", (error) => {
  console.error(`Error: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
// A terminal sends SIGINT and SIGHUP to the program itself, and a second one would end it at once.
const inTerminal = [0, 1, 2].some((descriptor) => require("node:tty").isatty(descriptor));
for (const signal of ["SIGINT", "SIGHUP", "SIGTERM"]) {
  process.on(signal, () => inTerminal && signal !== "SIGTERM" || child.kill(signal));
}
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
