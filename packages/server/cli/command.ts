/** A command is data: its usage, the parsing of its arguments and the shell completion come from it. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { didYouMean } from "nevertwice/env";

/** Success · the command or its check failed · wrong usage · the store or server does not answer. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unavailable: 3 } as const;
export type Exit = (typeof EXIT)[keyof typeof EXIT];

export interface Flag {
  readonly what: string;
  /** The placeholder of the value in the usage: `URL`. Absent for a switch. */
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

export interface Action {
  /** What the action does, as a sentence. */
  readonly summary: string;
  /** The required arguments without a flag: a placeholder such as `FILE`, or a list of choices. */
  readonly takes?: readonly (string | readonly string[])[];
  readonly flags: Flags;
  /** Lines of the usage after the flags. */
  readonly notes?: readonly string[];
  run(call: CommandCall): Promise<Exit>;
}

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  /** The actions by the word after the name of the command; "" is the action without such a word. */
  readonly actions: Readonly<Record<string, Action>>;
}

export type CommandMap = Readonly<Record<string, Command>>;

/** The command was used wrongly: the usage is printed with the reason. */
export class UsageError extends Error {
  override readonly name = "UsageError";
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
      ? `an action is missing: ${names.slice(0, -1).join(", ")} or ${names.at(-1)}.`
      : `unknown action ${JSON.stringify(name)}.${didYouMean(name, names)}`,
  );
}

export function parseCall({ takes = [], flags }: Action, words: readonly string[]): CommandCall {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value, many }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: many === true },
    ]),
  );
  const { values, positionals } = parseWords(words, options);
  checkArgs(takes, positionals);
  return {
    args: positionals,
    text: (flag) => (values[flag] as string | undefined) ?? flags[flag]?.default,
    given: (flag) => values[flag] as string | readonly string[] | undefined,
    has: (flag) => values[flag] === true,
  };
}

/** Calls `parseArgs`, and suggests the closest flag for an unknown one. */
function parseWords(words: readonly string[], options: NonNullable<ParseArgsConfig["options"]>) {
  try {
    return parseArgs({ args: [...words], allowPositionals: true, options });
  } catch (error) {
    const { code, message } = error as Error & { readonly code?: string };
    const flag = /^Unknown option '--([^']+)'/.exec(message)?.[1];
    if (code !== "ERR_PARSE_ARGS_UNKNOWN_OPTION" || flag === undefined) throw error;
    const hint = didYouMean(
      `--${flag}`,
      Object.keys(options).map((name) => `--${name}`),
    );
    throw new UsageError(`Unknown option '--${flag}'.${hint}`, { cause: error });
  }
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
    if (arg === undefined) throw new UsageError(`the argument ${wanted} is missing.`);
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
  process.stdout.write(`${line}\n`);
}

export function complain(line: string): void {
  process.stderr.write(`${line}\n`);
}
