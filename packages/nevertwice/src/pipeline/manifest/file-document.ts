/** Reads a manifest file and the files that it uses, and loads the code that they name. */

import { readFile } from "node:fs/promises";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, TomlError } from "smol-toml";
import { isPlainObject } from "../../core/plain-object.ts";
import { isRelative, isThere, resolveReference } from "./code-reference.ts";
import type { Code, Document, ManifestFault } from "./document.ts";
import type { ManifestProblem } from "./problem.ts";
import { shown } from "./table-reader.ts";
import { tomlLines } from "./toml-lines.ts";

/** Returns undefined if the file cannot be read or parsed, and adds the reason to `problems`. */
export async function documentFromFile(
  file: string | URL,
  problems: ManifestProblem[],
): Promise<Document | undefined> {
  const read = new Map<string, Document | undefined>();

  /** `trail`: the files that led to this one, the first one first. */
  async function open(path: string, trail: readonly string[]): Promise<Document | undefined> {
    if (read.has(path)) return read.get(path);
    const document = await readDocument(path, trail);
    read.set(path, document);
    return document;
  }

  async function readDocument(path: string, trail: readonly string[]): Promise<Document | undefined> {
    const name = shownFile(path);
    const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
      problems.push({
        file: name,
        line: undefined,
        at: "",
        problem: unreadable(error),
        fix: "correct the path",
      });
      return undefined;
    });
    const table = text === undefined ? undefined : parsed(text, name, problems);
    if (text === undefined || table === undefined) return undefined;
    const folder = dirname(path);
    const uses = new Map<string, Document | ManifestFault>();
    for (const [node, use] of usedBy(table)) {
      const used = await openUsed(use, folder, [...trail, path]);
      if (used !== undefined) uses.set(node, used);
    }
    const codes = await loadCode(table, folder);
    return {
      file: name,
      identity: path,
      table,
      findLine: tomlLines(text),
      uses,
      findCode: (value) =>
        codes.get(value) ?? { problem: `${shown(value)} does not name code`, fix: NAME_CODE },
    };
  }

  async function openUsed(
    use: unknown,
    folder: string,
    trail: readonly string[],
  ): Promise<Document | ManifestFault | undefined> {
    if (typeof use !== "string")
      return {
        problem: `${shown(use)} does not name a manifest`,
        fix: 'write a file, e.g. use = "./charge.node.toml"',
      };
    if (!isRelative(use))
      return {
        problem: `${shown(use)} is not a path relative to this file`,
        fix: 'write one that begins with "./" or "../"',
      };
    const path = resolve(folder, use);
    const circle = trail.indexOf(path);
    if (circle >= 0) {
      const names = [...trail.slice(circle), path].map(shownFile).join(" → ");
      return { problem: `the network uses itself: ${names}`, fix: "remove this use" };
    }
    if (!(await isThere(path)))
      return { problem: `there is no file ${use}`, fix: "correct the path, or write the file" };
    return open(path, trail);
  }

  return open(resolve(typeof file === "string" ? file : fileURLToPath(file)), []);
}

const NAME_CODE = 'write a file and an export of it, e.g. "./charge.js#decide"';

function parsed(
  text: string,
  file: string,
  problems: ManifestProblem[],
): Record<string, unknown> | undefined {
  try {
    return parse(text, { unsafeKeyBehaviour: "throw" });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [first = ""] = error.message.replace(/^Invalid TOML document: /, "").split("\n");
    problems.push({
      file,
      line: error.line,
      at: "",
      problem: `this is not valid TOML: ${first}`,
      fix: "correct this line",
    });
    return undefined;
  }
}

function usedBy(table: Readonly<Record<string, unknown>>): readonly (readonly [string, unknown])[] {
  if (!isPlainObject(table.nodes)) return [];
  return Object.entries(table.nodes).flatMap(([name, node]) =>
    isPlainObject(node) && node.use !== undefined ? [[name, node.use] as const] : [],
  );
}

/** Loads every value at a place where code is named. The reader of the table checks whether the value is valid there. */
async function loadCode(
  { contract, schemas }: Readonly<Record<string, unknown>>,
  folder: string,
): Promise<ReadonlyMap<unknown, Code | ManifestFault>> {
  const named = [
    ...(isPlainObject(contract) ? [contract.pure_core, contract.effect_shell] : []),
    ...(isPlainObject(schemas) ? Object.values(schemas) : []),
  ];
  const codes = new Map<unknown, Code | ManifestFault>();
  for (const reference of named) codes.set(reference, await resolveReference(folder, reference));
  return codes;
}

function unreadable(error: NodeJS.ErrnoException): string {
  if (error.code === "ENOENT") return "there is no such file";
  return error.code === "EISDIR" ? "this is a folder" : `this cannot be read (${error.code})`;
}

/** Relative to the working directory if the file is below it. */
function shownFile(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}
