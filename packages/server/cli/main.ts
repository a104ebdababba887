#!/usr/bin/env node
/** The command `nevertwice`. It only finds the command that was asked for; each is a file of its own. */
import { isNevertwiceError } from "nevertwice";
import { ConfigError } from "../src/config-error.ts";
import { VERSION } from "../src/version.ts";
import { actionOf, type Command, callOf, complain, EXIT, type Exit, isUsageError, print } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { isUnreachable } from "./reach.ts";
import { paint } from "./terminal.ts";
import { helpOf, usageOf } from "./usage.ts";

async function main([name = "", ...words]: readonly string[]): Promise<Exit> {
  if (["--version", "-v", "version"].includes(name)) {
    print(words.includes("--json") ? JSON.stringify({ version: VERSION }) : VERSION);
    return EXIT.ok;
  }
  if (["--help", "-h", "help"].includes(name)) return help(words[0] ?? "");
  const command = commandOf(name);
  if (command === undefined) return unknownCommand(name);
  if (words.includes("--help") || words.includes("-h")) return help(name);
  try {
    const { action, rest } = actionOf(command, words);
    return await action.run(callOf(action, rest));
  } catch (error) {
    return refuse(name, command, error, words.includes("--json"));
  }
}

function commandOf(name: string): Command | undefined {
  return Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
}

function help(name: string): Exit {
  const command = commandOf(name);
  if (command === undefined && name !== "") return unknownCommand(name);
  print(command === undefined ? helpOf(COMMANDS) : usageOf(name, command));
  return EXIT.ok;
}

function unknownCommand(name: string): Exit {
  const help = helpOf(COMMANDS);
  complain(name === "" ? help : `nevertwice: there is no command ${JSON.stringify(name)}.\n\n${help}`);
  return EXIT.usage;
}

function refuse(name: string, command: Command, error: unknown, isJson: boolean): Exit {
  const message = error instanceof Error ? error.message : String(error);
  const code = exitOf(error);
  if (isJson) complain(JSON.stringify({ error: message, exit: code }));
  else {
    complain(`${paint("red", `nevertwice ${name}:`, process.stderr)} ${message}`);
    if (isUsageError(error)) complain(`\n${usageOf(name, command)}`);
  }
  return code;
}

function exitOf(error: unknown): Exit {
  if (isUsageError(error) || error instanceof ConfigError || isNevertwiceError(error, "options-invalid"))
    return EXIT.usage;
  return isUnreachable(error) ? EXIT.unavailable : EXIT.failed;
}

// Whoever reads what we print may stop reading: that is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(EXIT.ok);
});

process.exitCode = await main(process.argv.slice(2));
