/** Loads code by its reference: `./charge.js#decide` is the export `decide` of a file next to the manifest. */

import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { nearest } from "../../core/did-you-mean.ts";
import { importModule } from "../../platform/import-module.ts";
import type { Code, ManifestFault } from "./document.ts";
import { shown } from "./table-reader.ts";

const REFERENCE = /^([^#]+)#([\p{L}_$][\p{L}\d_$]*)$/u;

/** References are relative to the manifest's folder, so that they do not depend on which program loads the manifest, or from where. */
export const isRelative = (path: string) => /^\.{1,2}\//.test(path);

/** Imports the file, which runs its code. */
export async function resolveReference(folder: string, reference: unknown): Promise<Code | ManifestFault> {
  const [, path, name] = typeof reference === "string" ? (REFERENCE.exec(reference) ?? []) : [];
  if (path === undefined || name === undefined)
    return {
      problem: `${shown(reference)} does not name code`,
      fix: 'write a file and an export of it, e.g. "./charge.js#decide"',
    };
  if (!isRelative(path))
    return {
      problem: `${shown(path)} is not a path relative to this file`,
      fix: 'write one that begins with "./" or "../"; to use code from a package, export it from one of your files',
    };
  const file = resolve(folder, path);
  if (!(await isThere(file)))
    return { problem: `there is no file ${path}`, fix: "correct the path, or write the file" };
  const loaded = await load(file);
  if ("error" in loaded)
    return {
      problem: `${path} cannot be loaded: ${firstLine(loaded.error)}`,
      fix: "fix the file so that it can be imported",
    };
  if (Object.hasOwn(loaded.module, name)) return { code: loaded.module[name] };
  const names = Object.keys(loaded.module);
  const near = nearest(name, names);
  return {
    problem: `${path} has no export "${name}"`,
    fix:
      near !== undefined
        ? `write "${path}#${near}"`
        : names.length === 0
          ? `export ${name} from it`
          : `write one of ${names.join(", ")}, or export ${name} from it`,
  };
}

type ModuleLoad = { readonly module: Readonly<Record<string, unknown>> } | { readonly error: unknown };

async function load(file: string): Promise<ModuleLoad> {
  try {
    return { module: await importModule(pathToFileURL(file).href) };
  } catch (error) {
    return { error };
  }
}

export function isThere(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return (message.split("\n")[0] ?? "").replace(/[.;]$/, "");
}
