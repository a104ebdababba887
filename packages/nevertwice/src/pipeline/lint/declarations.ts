/** Finds the top-level declarations, imports and exports of a file, as far as lint has to follow a call. */
import type { MaskedSource } from "./masked-source.ts";

/** A part of a file. */
export interface Extent {
  readonly from: number;
  readonly to: number;
}

export interface Import {
  readonly module: string;
  /** The name in the other file; `*` for all of its names. */
  readonly name: string;
}

/** Where the declaration of a name begins and ends; undefined if the file has none. */
export function findDeclaration({ code }: MaskedSource, name: string): Extent | undefined {
  const word = escaped(name);
  const start =
    name === "default"
      ? "export\\s+default\\b"
      : `(?:function\\s*\\*?|const|let|var|class)\\s+${word}(?![\\w$])`;
  const found = new RegExp(`^(?:export\\s+)?(?:default\\s+)?(?:async\\s+)?${start}`, "m").exec(code);
  if (found === null) return undefined;
  const isBlock = /\b(?:function\s*\*?|class)\s/.test(`${found[0]} `);
  const to = isBlock
    ? blockEnd(code, found.index + found[0].length)
    : statementEnd(code, found.index + found[0].length);
  return { from: found.index, to };
}

/** The name that an export has inside its file, or the file from which it is exported again. */
export function findExport(source: MaskedSource, name: string): string | Import | undefined {
  for (const found of source.code.matchAll(/\bexport\s*\{([^}]*)\}/g)) {
    const own = listed(found[1] ?? "").find(({ as }) => as === name);
    if (own === undefined) continue;
    const after = found.index + found[0].length;
    const from = /^\s*from\b/.exec(source.code.slice(after));
    const module = from === null ? undefined : source.stringAt(after + from[0].length);
    return module === undefined ? own.name : { module, name: own.name };
  }
  return undefined;
}

/** The imports of a file, by the name that they have in it. */
export function findImports(source: MaskedSource): ReadonlyMap<string, Import> {
  const imports = new Map<string, Import>();
  for (const found of source.code.matchAll(/^import\s+(?!type\b)([\w$*{},\s]+?)\s*\bfrom\b/gm)) {
    const module = source.stringAt(found.index + found[0].length);
    if (module === undefined) continue;
    const clause = found[1] ?? "";
    const [, space] = /\*\s+as\s+([\w$]+)/.exec(clause) ?? [];
    if (space !== undefined) imports.set(space, { module, name: "*" });
    const [, whole] = /^([\w$]+)/.exec(clause) ?? [];
    if (whole !== undefined) imports.set(whole, { module, name: "default" });
    for (const { name, as } of listed(/\{([^}]*)\}/.exec(clause)?.[1] ?? ""))
      imports.set(as, { module, name });
  }
  return imports;
}

/** `a, b as c` */
function listed(text: string): readonly { readonly name: string; readonly as: string }[] {
  return text.split(",").flatMap((item) => {
    const [, name, as] = /^\s*(?:type\s+)?([\w$]+)(?:\s+as\s+([\w$]+))?\s*$/.exec(item) ?? [];
    return name === undefined ? [] : [{ name, as: as ?? name }];
  });
}

const OPEN = "([{";
const CLOSE = ")]}";

/** After the block that follows the parameters. A brace after a sign of a type belongs to a type. */
function blockEnd(code: string, from: number): number {
  let depth = 0;
  let isBlock = false;
  for (let at = from; at < code.length; at++) {
    const sign = code[at] as string;
    if (depth === 0 && sign === "{") isBlock = !/[:<|&,(]\s*$/.test(code.slice(from, at));
    if (OPEN.includes(sign)) depth++;
    else if (CLOSE.includes(sign)) depth--;
    if (depth === 0 && sign === "}" && isBlock) return at + 1;
  }
  return code.length;
}

/** After the semicolon, or after the line on which the statement is complete. */
function statementEnd(code: string, from: number): number {
  let depth = 0;
  for (let at = from; at < code.length; at++) {
    const sign = code[at] as string;
    if (OPEN.includes(sign)) depth++;
    else if (CLOSE.includes(sign)) depth--;
    if (depth > 0) continue;
    if (sign === ";") return at + 1;
    if (sign === "\n" && isComplete(code.slice(from, at)) && !/^\s*[.?:&|+\-*/=>,)\]}]/.test(code.slice(at)))
      return at;
  }
  return code.length;
}

function isComplete(text: string): boolean {
  return !/[=>(,[{?:&|+\-*/.]\s*$/.test(text);
}

function escaped(name: string): string {
  return name.replace(/\$/g, "\\$");
}
