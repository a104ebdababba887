/** Parses the instructions that our Dockerfile uses, and fails for others instead of skipping them. */

export interface Instruction {
  readonly name: string;
  /** `--from=build` is `{ from: "build" }`. */
  readonly flags: Readonly<Record<string, string>>;
  readonly text: string;
}

export interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

export function stagesIn(dockerfile: string): readonly Stage[] {
  const stages: (Stage & { readonly instructions: Instruction[] })[] = [];
  for (const instruction of instructionsIn(dockerfile)) {
    if (instruction.name === "FROM") {
      const [, base = "", name] = /^(\S+)(?: AS (\S+))?$/.exec(instruction.text) ?? [];
      stages.push({ base, name, instructions: [] });
    } else stages.at(-1)?.instructions.push(instruction);
  }
  return stages;
}

export function instructionsIn(dockerfile: string): readonly Instruction[] {
  const lines = dockerfile
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .join("\n")
    .replace(/\\\n\s*/g, "")
    .split("\n");
  return lines
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", rest = ""] = /^([A-Z]+) +(.*)$/.exec(line) ?? [];
      const [flagText = ""] = /^(--\S+ +)*/.exec(rest) ?? [];
      const flags = [...flagText.matchAll(/--([a-z-]+)=(\S+)/g)].map(([, flag, value]) => [flag, value]);
      return { name, flags: Object.fromEntries(flags), text: rest.slice(flagText.length) };
    });
}

/** `ENV A=1 B=2`. */
export function variablesIn(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(text.split(/ +/).map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
}

/** Whether the ignore file excludes a path of the context. */
export function ignoring(ignoreFile: string): (path: string) => boolean {
  const patterns = ignoreFile
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const anywhere = line.startsWith("**/");
      const name = (anywhere ? line.slice(3) : line)
        .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
        .replaceAll("*", "[^/]*");
      return new RegExp(`^${anywhere ? "(.*/)?" : ""}${name}(/.*)?$`);
    });
  return (path) => patterns.some((pattern) => pattern.test(path));
}
