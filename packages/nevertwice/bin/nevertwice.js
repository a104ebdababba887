#!/usr/bin/env node
/**
 * The command `nevertwice` is in the package @nevertwice/server. This file runs it if that package is installed next to
 * this one or in the working directory, and otherwise says how to install it.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const SERVER = "@nevertwice/server";

/** @returns {URL | undefined} the command of the server package, as a module in `from` would find it */
function findCommand(/** @type {string | URL} */ from) {
  const require = createRequire(from);
  try {
    const manifest = require.resolve(`${SERVER}/package.json`);
    return new URL(require(manifest).bin.nevertwice, pathToFileURL(manifest));
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

const command = findCommand(import.meta.url) ?? findCommand(join(process.cwd(), "package.json"));
if (command === undefined) {
  process.stderr.write(`The command is in ${SERVER}: npm install ${SERVER}\n`);
  process.exitCode = 1;
} else {
  await import(command.href);
}
