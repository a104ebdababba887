/** Makes the help texts from the same data that parses the arguments. */
import type { Action, Command, CommandMap, Flags } from "./command.ts";

const CODES =
  "Exit codes: 0 success · 1 the command or its check failed · 2 wrong usage · 3 the store or server does not answer";

export function helpText(commands: CommandMap): string {
  const rows: readonly (readonly [string, string])[] = [
    ...Object.entries(commands).map(([name, { summary }]) => [name, summary] as const),
    ["help", "print the usage of a command: nevertwice help COMMAND"],
    ["version", "print the version"],
  ];
  return [
    "nevertwice COMMAND …",
    "",
    ...rows.map(([name, summary]) => `  ${name.padEnd(12)}${summary}`),
    "",
    "Run nevertwice COMMAND --help for the flags of a command.",
    "",
    CODES,
  ].join("\n");
}

/** The usage of all actions of a command; flags that all of them share are printed once. */
export function usageText(name: string, { actions }: Command): string {
  const all = Object.entries(actions);
  const shared = Object.fromEntries(
    Object.entries(all[0]?.[1].flags ?? {}).filter(
      ([flag]) => all.length > 1 && all.every(([, { flags }]) => Object.hasOwn(flags, flag)),
    ),
  );
  const parts = all.map(([word, action]) => actionUsage(["nevertwice", name, word], action, shared));
  const everywhere =
    Object.keys(shared).length > 0 ? [["Flags of all actions:", ...flagLines(shared)].join("\n")] : [];
  return [...parts, ...everywhere, CODES].join("\n\n");
}

function actionUsage(
  words: readonly string[],
  { summary, takes = [], flags, notes = [] }: Action,
  shared: Flags,
): string {
  const own = Object.fromEntries(Object.entries(flags).filter(([flag]) => !Object.hasOwn(shared, flag)));
  const line = [
    ...words.filter(Boolean),
    ...takes.map((taken) => (typeof taken === "string" ? taken : taken.join("|"))),
    ...(Object.keys(flags).length > 0 ? ["[--FLAG …]"] : []),
  ].join(" ");
  return [line, `    ${summary}`, ...flagLines(own), ...notes.map((note) => `    ${note}`)].join("\n");
}

function flagLines(flags: Flags): readonly string[] {
  const shown = Object.entries(flags).map(
    ([name, { value, what, default: unset, many }]) =>
      [value === undefined ? `--${name}` : `--${name} ${value}`, `${what}${flagNote(many, unset)}`] as const,
  );
  const width = Math.max(0, ...shown.map(([flag]) => flag.length));
  return shown.map(([flag, what]) => `    ${flag.padEnd(width)}  ${what}`);
}

function flagNote(many: true | undefined, unset: string | undefined): string {
  const notes = [many && "repeatable", unset !== undefined && `default ${unset}`].filter(Boolean);
  return notes.length === 0 ? "" : ` (${notes.join("; ")})`;
}
