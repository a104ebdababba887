/**
 * The code that a handler runs, as far as its files show: the function itself, and the functions of its own files that it
 * names, also through relative imports. Calls into packages are not followed.
 */
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type Extent, findDeclaration, findExport, findImports, type Import } from "./declarations.ts";
import { type MaskedSource, maskSource } from "./masked-source.ts";

/** A piece of code in a file. */
export interface CodePiece extends Extent {
  readonly file: string;
  readonly source: MaskedSource;
  /** The packages whose names the piece uses, by the name that it uses. */
  readonly packages: ReadonlyMap<string, string>;
}

/** The most functions that are followed from one handler. */
const MAX_PIECES = 500;

export interface CodeReader {
  /** The pieces of code that a reference (`./nodes.js#charge`) reaches, its own first. Empty if it cannot be found. */
  reach(folder: string, reference: string): Promise<readonly CodePiece[]>;
}

/** Reads each file once. */
export function createCodeReader(): CodeReader {
  const files = new Map<string, Promise<MaskedSource | undefined>>();

  function open(file: string): Promise<MaskedSource | undefined> {
    const known = files.get(file) ?? readFile(file, "utf8").then(maskSource, () => undefined);
    files.set(file, known);
    return known;
  }

  async function follow(file: string, name: string, pieces: Map<string, CodePiece>): Promise<void> {
    const id = `${file}#${name}`;
    if (pieces.has(id) || pieces.size >= MAX_PIECES) return;
    const source = await open(file);
    if (source === undefined) return;
    const extent = findDeclaration(source, name);
    const imports = findImports(source);
    if (extent === undefined) {
      const other = findExport(source, name) ?? imports.get(name);
      if (typeof other === "string" && other !== name) await follow(file, other, pieces);
      else if (typeof other === "object") await followImport(file, other, pieces);
      return;
    }
    const names = namesIn(source.code.slice(extent.from, extent.to));
    const packages = new Map<string, string>();
    for (const one of names.plain) {
      const module = imports.get(one)?.module;
      if (module !== undefined && !isOwn(module)) packages.set(one, module);
    }
    pieces.set(id, { ...extent, file, source, packages });
    for (const one of names.plain) {
      const from = imports.get(one);
      if (from === undefined) await follow(file, one, pieces);
      else if (from.name !== "*") await followImport(file, from, pieces);
      else
        for (const member of names.members.get(one) ?? [])
          await followImport(file, { ...from, name: member }, pieces);
    }
  }

  async function followImport(
    file: string,
    { module, name }: Import,
    pieces: Map<string, CodePiece>,
  ): Promise<void> {
    if (isOwn(module)) await follow(resolve(dirname(file), module), name, pieces);
  }

  return {
    async reach(folder, reference) {
      const [path = "", name = ""] = reference.split("#");
      const pieces = new Map<string, CodePiece>();
      await follow(resolve(folder, path), name, pieces);
      return [...pieces.values()];
    },
  };
}

function isOwn(module: string): boolean {
  return module.startsWith("./") || module.startsWith("../");
}

/** The names that code uses, and the members that it reads of each of them. */
function namesIn(code: string): {
  plain: ReadonlySet<string>;
  members: ReadonlyMap<string, ReadonlySet<string>>;
} {
  const plain = new Set<string>();
  const members = new Map<string, Set<string>>();
  for (const [, name = "", member] of code.matchAll(/(?<![\w$.])([A-Za-z_$][\w$]*)(?:\s*\.\s*([\w$]+))?/g)) {
    plain.add(name);
    if (member !== undefined) members.set(name, (members.get(name) ?? new Set()).add(member));
  }
  return { plain, members };
}
