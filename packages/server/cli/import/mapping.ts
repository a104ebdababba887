/** How the key of another library becomes an identity of ours: templates with the fields of its key. */
import { UsageError } from "../command.ts";

export interface Templates {
  readonly operation: string;
  readonly scope: string;
  readonly key: string;
}

export interface MappedKey {
  readonly operation: string;
  /** Absent if it is empty. */
  readonly scope?: string;
  readonly key: string;
}

const FIELD = /\{(\w+)\}/g;
const GROUP = /\(\?<([A-Za-z_]\w*)>/g;

export interface Mapping {
  readonly templates: Templates;
  /** Its named groups are fields too. It is matched against the whole key of the other library. */
  readonly pattern: RegExp | undefined;
}

/** Throws `UsageError` for a template with a field that does not exist, and for a pattern that cannot be used. */
export function createMapping(
  templates: Templates,
  match: string | undefined,
  fields: readonly string[],
): Mapping {
  const pattern = match === undefined ? undefined : readPattern(match);
  const groups = [...(match ?? "").matchAll(GROUP)].map(([, name]) => name as string);
  const known = new Set([...fields, ...groups]);
  for (const [flag, template] of Object.entries(templates))
    for (const [, name] of template.matchAll(FIELD))
      if (!known.has(name as string))
        throw new UsageError(`--${flag} has {${name}}, but the fields are ${[...known].join(", ")}.`);
  return { templates, pattern };
}

function readPattern(match: string): RegExp {
  try {
    return new RegExp(match, "u");
  } catch (cause) {
    throw new UsageError(`--match must be a regular expression: ${(cause as Error).message}.`, { cause });
  }
}

/** The identity, or why there is none. */
export function mapKey(
  { templates, pattern }: Mapping,
  whole: string,
  fields: Readonly<Record<string, string>>,
): MappedKey | { readonly reason: string } {
  const found = pattern?.exec(whole);
  if (found === null) return { reason: "--match does not match its key." };
  const all: Readonly<Record<string, string | undefined>> = { ...fields, ...found?.groups };
  const fill = (template: string) => template.replace(FIELD, (_, name: string) => all[name] ?? "");
  const [operation, scope, key] = [fill(templates.operation), fill(templates.scope), fill(templates.key)];
  if (operation === "")
    return { reason: "it has nothing that names an operation; give one, such as --operation charge." };
  if (key === "") return { reason: "its key is empty." };
  return { operation, key, ...(scope !== "" && { scope }) };
}
