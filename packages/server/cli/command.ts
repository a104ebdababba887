/** What a command is: rows of data from which come its usage, how its words are read, and what a shell completes. */
import { parseArgs } from "node:util";

/** Done · it failed, or what was asked for is not so · it was called wrongly · somebody who is needed does not answer. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unavailable: 3 } as const;
export type Exit = (typeof EXIT)[keyof typeof EXIT];

export interface Flag {
  readonly what: string;
  /** What stands for the value in the usage: `URL`. Absent for a switch. */
  readonly value?: string;
  readonly default?: string | undefined;
  /** May be given several times. */
  readonly many?: true;
}

export type Flags = Readonly<Record<string, Flag>>;

/** The words of one call. */
export interface Call {
  /** What was given without a flag: one for each of `takes`. */
  readonly args: readonly string[];
  /** Its default if it was not given. */
  text(flag: string): string | undefined;
  /** Undefined if it was not given, whatever its default. */
  given(flag: string): string | readonly string[] | undefined;
  has(flag: string): boolean;
}

export interface Action {
  /** What it does, as a sentence. */
  readonly summary: string;
  /** What must be given without a flag: `FILE`, or the words among which to choose. */
  readonly takes?: readonly (string | readonly string[])[];
  readonly flags: Flags;
  /** Lines for people, after the flags. */
  readonly notes?: readonly string[];
  run(call: Call): Promise<Exit>;
}

export interface Command {
  /** One line, for the list of commands. */
  readonly summary: string;
  /** What it does, by the word that follows its name; what it does without one is under "". */
  readonly actions: Readonly<Record<string, Action>>;
}

export type Commands = Readonly<Record<string, Command>>;

/** The command was called wrongly: its usage is shown with the reason. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export const JSON_FLAG: Flags = { json: { what: "prints JSON, for programs" } };

/** The action that was asked for, and the rest of the words. */
export function actionOf(
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
      ? `${names.slice(0, -1).join(", ")} or ${names.at(-1)}?`
      : `there is no ${JSON.stringify(name)}.`,
  );
}

export function callOf({ takes = [], flags }: Action, words: readonly string[]): Call {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value, many }]) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: many === true },
    ]),
  );
  const { values, positionals } = parseArgs({ args: [...words], allowPositionals: true, options });
  checkArgs(takes, positionals);
  return {
    args: positionals,
    text: (flag) => (values[flag] as string | undefined) ?? flags[flag]?.default,
    given: (flag) => values[flag] as string | readonly string[] | undefined,
    has: (flag) => values[flag] === true,
  };
}

function checkArgs(takes: NonNullable<Action["takes"]>, given: readonly string[]): void {
  for (const [index, wanted] of takes.entries()) {
    const arg = given[index];
    if (typeof wanted !== "string" && (arg === undefined || !wanted.includes(arg)))
      throw new UsageError(
        arg === undefined ? `which one: ${wanted.join(", ")}?` : `there is no ${JSON.stringify(arg)}.`,
      );
    if (arg === undefined) throw new UsageError(`which ${wanted}?`);
  }
  if (given.length <= takes.length) return;
  const more = given.slice(takes.length).join(" ");
  const [last] = takes.slice(-1);
  throw new UsageError(
    takes.length === 1 && typeof last === "string"
      ? `one ${last}, not also ${more}.`
      : `nothing is known about ${more}.`,
  );
}

/** What `parseArgs` of Node throws for options that it does not know or cannot read. */
export function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true;
  const { code } = (error ?? {}) as { code?: unknown };
  return error instanceof Error && typeof code === "string" && code.startsWith("ERR_PARSE_ARGS_");
}

export function wholeNumber(call: Call, flag: string, least: number): number | undefined {
  const text = call.text(flag);
  if (text === undefined) return undefined;
  const number = Number(text);
  if (text.trim() === "" || !Number.isSafeInteger(number) || number < least)
    throw new UsageError(`--${flag} is a whole number from ${least}.`);
  return number;
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

export function complain(line: string): void {
  process.stderr.write(`${line}\n`);
}
