/** The command line as a function: it finds the command, runs it, and prints its result. Each command has its own file. */
import { isNevertwiceError } from "nevertwice";
import { didYouMean } from "nevertwice/env";
import { ConfigError } from "../src/config-error.ts";
import { VERSION } from "../src/version.ts";
import { isUnreachable } from "./api.ts";
import {
  type Command,
  type CommandResult,
  complain,
  EXIT,
  type Exit,
  findAction,
  isUsageError,
  parseCall,
  print,
  Refused,
  UsageError,
} from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { envelopeText } from "./envelope.ts";
import { withElapsedTime } from "./status-line.ts";
import { paint } from "./terminal.ts";
import { helpText, usageText } from "./usage.ts";

const VERSION_WORDS = ["--version", "-v", "version"];
const HELP_WORDS = ["--help", "-h", "help"];

/** Runs one command line and resolves with its exit code. It never throws. */
export async function runProgram(words: readonly string[]): Promise<Exit> {
  const called = { name: "", isJson: words.includes("--json") };
  try {
    const result = await findAndRun(words, called);
    return printResult(result, called);
  } catch (error) {
    return printError(error, called);
  }
}

/** What was called, for messages: `keys list`. It is filled in as the words are understood. */
interface Called {
  name: string;
  isJson: boolean;
}

async function findAndRun([name = "", ...words]: readonly string[], called: Called): Promise<CommandResult> {
  if (VERSION_WORDS.includes(name)) {
    called.name = "version";
    return { data: { version: VERSION }, lines: [VERSION] };
  }
  if (HELP_WORDS.includes(name)) {
    called.name = "help";
    return help(words.find((word) => word !== "--json") ?? "");
  }
  const command = findCommand(name);
  called.name = name;
  if (words.some((word) => word === "--help" || word === "-h")) return help(name);
  const { name: verb, action, rest } = findAction(command, words);
  called.name = verb === "" ? name : `${name} ${verb}`;
  const call = parseCall(action, rest);
  called.isJson = call.has("json");
  if (action.showsProgress) return action.run(call);
  return withElapsedTime(`nevertwice ${called.name}`, () => action.run(call));
}

/** Throws `UsageError` for a name that does not exist. */
function findCommand(name: string): Command {
  const found = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (found !== undefined) return found;
  throw new UsageError(
    name === ""
      ? "a command is missing."
      : `unknown command ${JSON.stringify(name)}.${didYouMean(name, Object.keys(COMMANDS))}`,
  );
}

function help(name: string): CommandResult {
  const text = name === "" ? helpText(COMMANDS) : usageText(name, findCommand(name));
  return { data: { text }, lines: [text] };
}

function printResult({ exit = EXIT.ok, data, lines, remarks = [] }: CommandResult, called: Called): Exit {
  if (called.isJson) print(envelopeText({ command: called.name, exit, data }));
  else {
    for (const line of lines) print(line);
    for (const line of remarks) complain(line);
  }
  return exit;
}

function printError(error: unknown, { name, isJson }: Called): Exit {
  const { code, message, exit, details } = describeError(error);
  const isKnown = Object.hasOwn(COMMANDS, name.split(" ")[0] ?? "");
  if (isJson) {
    const own = { code, message, ...(details !== undefined && { details }) };
    print(envelopeText({ command: isKnown ? name : null, exit, error: own }));
    return exit;
  }
  const [command = ""] = name.split(" ");
  const who = isKnown ? `nevertwice ${command}` : "nevertwice";
  const hint = isUsageError(error) && !message.includes("Did you mean") ? ` See ${who} --help.` : "";
  complain(`${paint("red", `${who}:`, process.stderr)} ${message}${hint}`);
  if (error instanceof Refused) for (const line of error.lines) complain(line);
  return exit;
}

interface ErrorDescription {
  readonly code: string;
  readonly message: string;
  readonly exit: Exit;
  readonly details?: unknown;
}

function describeError(error: unknown): ErrorDescription {
  if (error instanceof Refused) return error;
  const whole = error instanceof Error ? error.message : String(error);
  // A mistake is one line, even if a parser explains it in several.
  const message = whole.replace(/\s*\n\s*/g, " ").trim();
  if (isUsageError(error)) return { code: "usage", message, exit: EXIT.usage };
  if (error instanceof ConfigError) return { code: "setting-invalid", message, exit: EXIT.usage };
  const code = isNevertwiceError(error) ? error.code : undefined;
  if (code === "options-invalid") return { code, message, exit: EXIT.usage };
  if (isUnreachable(error)) return { code: code ?? "unavailable", message, exit: EXIT.unavailable };
  return { code: code ?? "failed", message: whole, exit: EXIT.failed };
}
