#!/usr/bin/env node
// Starts the program that the package for this platform carries.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `doran-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/doran`);
} catch {
  console.error(`doran: there is no package ${platform}. Doran runs on Linux and macOS, on x64 and arm64.`);
  console.error(`If this is such a machine, install again without --omit=optional.`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// Ctrl-C reaches the program directly, and it decides when to end. Other signals are passed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`doran: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
