#!/usr/bin/env node
/** The entry point of the command line. It finds the command and runs it; each command has its own file. */
import { isNevertwiceError } from "nevertwice";
import { didYouMean } from "nevertwice/env";
import { ConfigError } from "../src/config-error.ts";
import { VERSION } from "../src/version.ts";
import { isUnreachable } from "./api.ts";
import {
  type Command,
  complain,
  EXIT,
  type Exit,
  findAction,
  isUsageError,
  parseCall,
  print,
} from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { paint } from "./terminal.ts";
import { helpText, usageText } from "./usage.ts";

async function main([name = "", ...words]: readonly string[]): Promise<Exit> {
  if (["--version", "-v", "version"].includes(name)) {
    print(words.includes("--json") ? JSON.stringify({ version: VERSION }) : VERSION);
    return EXIT.ok;
  }
  if (["--help", "-h", "help"].includes(name)) return help(words[0] ?? "");
  const command = findCommand(name);
  if (command === undefined) return unknownCommand(name);
  if (words.includes("--help") || words.includes("-h")) return help(name);
  try {
    const { action, rest } = findAction(command, words);
    return await action.run(parseCall(action, rest));
  } catch (error) {
    return refuse(name, command, error, words.includes("--json"));
  }
}

function findCommand(name: string): Command | undefined {
  return Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
}

function help(name: string): Exit {
  const command = findCommand(name);
  if (command === undefined && name !== "") return unknownCommand(name);
  print(command === undefined ? helpText(COMMANDS) : usageText(name, command));
  return EXIT.ok;
}

function unknownCommand(name: string): Exit {
  const help = helpText(COMMANDS);
  const hint = didYouMean(name, Object.keys(COMMANDS));
  complain(name === "" ? help : `nevertwice: unknown command ${JSON.stringify(name)}.${hint}\n\n${help}`);
  return EXIT.usage;
}

function refuse(name: string, command: Command, error: unknown, isJson: boolean): Exit {
  const message = error instanceof Error ? error.message : String(error);
  const code = exitCode(error);
  if (isJson) complain(JSON.stringify({ error: message, exit: code }));
  else {
    complain(`${paint("red", `nevertwice ${name}:`, process.stderr)} ${message}`);
    if (isUsageError(error)) complain(`\n${usageText(name, command)}`);
  }
  return code;
}

function exitCode(error: unknown): Exit {
  if (isUsageError(error) || error instanceof ConfigError || isNevertwiceError(error, "options-invalid"))
    return EXIT.usage;
  return isUnreachable(error) ? EXIT.unavailable : EXIT.failed;
}

// The program that reads the output may stop early (`| head`): that is not a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(EXIT.ok);
});

process.exitCode = await main(process.argv.slice(2));
