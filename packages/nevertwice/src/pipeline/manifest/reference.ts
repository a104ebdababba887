/** Code by its reference: `./charge.js#decide` is the export `decide` of a file beside the manifest. */
import { access } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Code, Fault } from "./document.ts";
import { nearest } from "./near-miss.ts";
import { shown } from "./table.ts";

const REFERENCE = /^([^#]+)#([\p{L}_$][\p{L}\d_$]*)$/u;

/** Only a path from the manifest's own folder: what it names must not depend on where, or by whom, it is loaded. */
export const isRelative = (path: string) => /^\.{1,2}\//.test(path);

/** Loads the file, which runs it. */
export async function resolveReference(folder: string, reference: unknown): Promise<Code | Fault> {
  const [, path, name] = typeof reference === "string" ? (REFERENCE.exec(reference) ?? []) : [];
  if (path === undefined || name === undefined)
    return {
      problem: `${shown(reference)} names no code`,
      fix: 'write a file and an export of it, e.g. "./charge.js#decide"',
    };
  if (!isRelative(path))
    return {
      problem: `${shown(path)} is no path from this file`,
      fix: 'write one that begins with "./" or "../"; what a package has, export it from a file of yours',
    };
  const file = resolve(folder, path);
  if (!(await isThere(file)))
    return { problem: `there is no file ${path}`, fix: "correct the path, or write the file" };
  const loaded = await load(file);
  if ("error" in loaded)
    return { problem: `${path} cannot be loaded: ${firstLine(loaded.error)}`, fix: "make it load by itself" };
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

type Loaded = { readonly module: Readonly<Record<string, unknown>> } | { readonly error: unknown };

async function load(file: string): Promise<Loaded> {
  try {
    return { module: await import(/* @vite-ignore */ pathToFileURL(file).href) };
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
