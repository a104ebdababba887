/** A command is data: its usage, the parsing of its arguments and the shell completion come from it. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { didYouMean } from "nevertwice/env";
import { clearStatus } from "./status-line.ts";

/** Success · the command or its check failed · wrong usage · the store or server does not answer. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unavailable: 3 } as const;
export type Exit = (typeof EXIT)[keyof typeof EXIT];

export interface Flag {
  readonly what: string;
  /**
   * The placeholder of the value in the usage: `URL`. Choices are separated by `|`, and no other value is accepted. Absent
   * for a switch.
   */
  readonly value?: string;
  readonly default?: string | undefined;
  /** May be given several times. */
  readonly many?: true;
}

export type Flags = Readonly<Record<string, Flag>>;

/** The parsed arguments of one call. */
export interface CommandCall {
  /** The arguments without a flag, one for each of `takes`. */
  readonly args: readonly string[];
  /** The value of a flag, or its default. */
  text(flag: string): string | undefined;
  /** The value of a flag without its default. */
  given(flag: string): string | readonly string[] | undefined;
  has(flag: string): boolean;
}

/** What an action did. The same object becomes the JSON envelope or the lines for people, so that neither says less. */
export interface CommandResult {
  /** Default: success. */
  readonly exit?: Exit;
  /** With `--json`: the `data` of the envelope. */
  readonly data: unknown;
  /** Without `--json`: the lines on standard output. */
  readonly lines: readonly string[];
  /** Without `--json`: lines on standard error, for what a program that reads the output must not get. */
  readonly remarks?: readonly string[];
}

export interface Action {
  /** What the action does, as a sentence. */
  readonly summary: string;
  /** The arguments without a flag: a placeholder such as `FILE`, or a list of choices. Only `[FILE]` may be missing. */
  readonly takes?: readonly (string | readonly string[])[];
  readonly flags: Flags;
  /** Lines of the usage after the flags. */
  readonly notes?: readonly string[];
  /** The action prints what it does while it runs: it gets no line that says how long it takes. */
  readonly showsProgress?: true;
  run(call: CommandCall): Promise<CommandResult>;
}

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  /** The actions by the word after the name of the command; "" is the action without such a word. */
  readonly actions: Readonly<Record<string, Action>>;
}

export type CommandMap = Readonly<Record<string, Command>>;

/** The command was used wrongly. The reason is printed in one line; only `--help` prints the usage. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** The command was used rightly and was refused, for example because the key does not exist. */
export class Refused extends Error {
  override readonly name = "Refused";
  /** A word for programs, such as `not-found`. */
  readonly code: string;
  readonly exit: Exit;
  /** What else the refusal says, for programs. */
  readonly details: unknown;
  /** More lines for people. */
  readonly lines: readonly string[];

  constructor(
    code: string,
    message: string,
    {
      exit = EXIT.failed,
      details,
      lines = [],
    }: {
      readonly exit?: Exit;
      readonly details?: unknown;
      readonly lines?: readonly string[];
    } = {},
  ) {
    super(message);
    this.code = code;
    this.exit = exit;
    this.details = details;
    this.lines = lines;
  }
}

export const JSON_FLAG: Flags = { json: { what: "print JSON, for programs" } };

/** Finds the action, and returns it with the remaining words. */
export function findAction(
  { actions }: Command,
  words: readonly string[],
): { readonly name: string; readonly action: Action; readonly rest: readonly string[] } {
  const [name = "", ...rest] = words;
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (action !== undefined && name !== "") return { name, action, rest };
  const only = actions[""];
  if (only !== undefined) return { name: "", action: only, rest: words };
  const names = Object.keys(actions);
  throw new UsageError(
    name === ""
      ? `an action is missing: ${either(names)}.`
      : `unknown action ${JSON.stringify(name)}.${didYouMean(name, names)}`,
  );
}

/** `a, b or c`. */
function either(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** The only values that a flag accepts; undefined if it accepts others too. */
export function choicesFor({ value }: Flag): readonly string[] | undefined {
  return value?.includes("|") ? value.split("|") : undefined;
}

export function parseCall({ takes = [], flags }: Action, words: readonly string[]): CommandCall {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value, many }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: many === true },
    ]),
  );
  const { values, positionals } = parseWords(words, options, flags);
  checkArgs(takes, positionals);
  for (const [name, flag] of Object.entries(flags)) checkChoice(name, flag, values[name]);
  return {
    args: positionals,
    text: (flag) => (values[flag] as string | undefined) ?? flags[flag]?.default,
    given: (flag) => values[flag] as string | readonly string[] | undefined,
    has: (flag) => values[flag] === true,
  };
}

/** Calls `parseArgs`, and says in one line what is wrong, with the closest flag for an unknown one. */
function parseWords(
  words: readonly string[],
  options: NonNullable<ParseArgsConfig["options"]>,
  flags: Flags,
) {
  try {
    return parseArgs({ args: [...words], allowPositionals: true, options });
  } catch (error) {
    const { code, message } = error as Error & { readonly code?: string };
    const name = /'(?:-\w, )?(--?[^' ]+)/.exec(message)?.[1] ?? "";
    const flag = flags[name.replace(/^--/, "")];
    if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
      const known = Object.keys(options).map((one) => `--${one}`);
      throw new UsageError(`Unknown option '${name}'.${didYouMean(name, known)}`, { cause: error });
    }
    if (code !== "ERR_PARSE_ARGS_INVALID_OPTION_VALUE" || flag === undefined) throw error;
    throw new UsageError(valueProblem(name, flag), { cause: error });
  }
}

function valueProblem(name: string, { value }: Flag): string {
  if (value === undefined) return `${name} takes no value.`;
  return `${name} needs a value: ${name} ${value}. A value that begins with a dash is written ${name}=VALUE.`;
}

function checkChoice(
  name: string,
  flag: Flag,
  given: string | boolean | readonly (string | boolean)[] | undefined,
): void {
  const choices = choicesFor(flag);
  if (choices === undefined || given === undefined) return;
  for (const text of [given].flat().map(String))
    if (!choices.includes(text))
      throw new UsageError(`--${name} must be ${either(choices)}.${didYouMean(text, choices)}`);
}

function checkArgs(takes: NonNullable<Action["takes"]>, given: readonly string[]): void {
  for (const [index, wanted] of takes.entries()) {
    const arg = given[index];
    if (typeof wanted !== "string" && (arg === undefined || !wanted.includes(arg)))
      throw new UsageError(
        arg === undefined
          ? `an argument is missing: one of ${wanted.join(", ")}.`
          : `unknown argument ${JSON.stringify(arg)}.${didYouMean(arg, wanted)}`,
      );
    if (arg === undefined && !String(wanted).startsWith("["))
      throw new UsageError(`the argument ${wanted} is missing.`);
  }
  if (given.length <= takes.length) return;
  const more = given.slice(takes.length).join(" ");
  const [last] = takes.slice(-1);
  throw new UsageError(
    takes.length === 1 && typeof last === "string"
      ? `one ${last} is expected, but also got ${more}.`
      : `unexpected argument ${more}.`,
  );
}

/** Also true for the errors that node's `parseArgs` throws. */
export function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true;
  const { code } = (error ?? {}) as { code?: unknown };
  return error instanceof Error && typeof code === "string" && code.startsWith("ERR_PARSE_ARGS_");
}

export function wholeNumber(call: CommandCall, flag: string, least: number): number | undefined {
  const text = call.text(flag);
  if (text === undefined) return undefined;
  const number = Number(text);
  if (text.trim() === "" || !Number.isSafeInteger(number) || number < least)
    throw new UsageError(`--${flag} must be a whole number of at least ${least}.`);
  return number;
}

export function print(line: string): void {
  clearStatus();
  process.stdout.write(`${line}\n`);
}

export function complain(line: string): void {
  clearStatus();
  process.stderr.write(`${line}\n`);
}
