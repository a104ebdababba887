#!/usr/bin/env node
/** The entry point of the command line. */
import { EXIT } from "./command.ts";
import { runProgram } from "./program.ts";

// The program that reads the output may stop early (`| head`): that is not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(EXIT.ok);
});

process.exitCode = await runProgram(process.argv.slice(2));
