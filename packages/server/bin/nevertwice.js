#!/usr/bin/env node
/** The command that npm links. It is a source file, so that a clone has it after `npm ci`, before anything is built. */
import "../dist/cli/main.js";
