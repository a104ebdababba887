/** How a command is called, as people read it: made of the same rows that it is read by. */
import type { Action, Command, Commands, Flags } from "./command.ts";

const CODES =
  "Exit code: 0 done · 1 it failed, or what was asked for is not so · 2 wrong usage · 3 the store or server does not answer";

export function helpOf(commands: Commands): string {
  const rows: readonly (readonly [string, string])[] = [
    ...Object.entries(commands).map(([name, { summary }]) => [name, summary] as const),
    ["help", "says how a command is called: nevertwice help COMMAND"],
    ["version", "says which version this is"],
  ];
  return [
    "nevertwice COMMAND …",
    "",
    ...rows.map(([name, summary]) => `  ${name.padEnd(12)}${summary}`),
    "",
    "nevertwice COMMAND --help says more.",
    "",
    CODES,
  ].join("\n");
}

/** Of all its actions; flags that all of them have are said once. */
export function usageOf(name: string, { actions }: Command): string {
  const all = Object.entries(actions);
  const shared = Object.fromEntries(
    Object.entries(all[0]?.[1].flags ?? {}).filter(
      ([flag]) => all.length > 1 && all.every(([, { flags }]) => Object.hasOwn(flags, flag)),
    ),
  );
  const parts = all.map(([word, action]) => actionUsage(["nevertwice", name, word], action, shared));
  const everywhere = Object.keys(shared).length > 0 ? [["Everywhere:", ...flagLines(shared)].join("\n")] : [];
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
      [value === undefined ? `--${name}` : `--${name} ${value}`, `${what}${noteOf(many, unset)}`] as const,
  );
  const width = Math.max(0, ...shown.map(([flag]) => flag.length));
  return shown.map(([flag, what]) => `    ${flag.padEnd(width)}  ${what}`);
}

function noteOf(many: true | undefined, unset: string | undefined): string {
  const notes = [many && "may be given several times", unset !== undefined && `default ${unset}`].filter(
    Boolean,
  );
  return notes.length === 0 ? "" : ` (${notes.join("; ")})`;
}
