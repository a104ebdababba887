#!/usr/bin/env node
/** The command, as npm links it: it is here before anything is built, so that a clone has it after `npm ci` too. */
import "../dist/cli/main.js";
