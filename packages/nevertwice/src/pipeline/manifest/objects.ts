/** Manifests that are objects of a program: the same tables, with functions where a file has references to them. */
import { type Document, type Fault, isTable } from "./document.ts";
import { shown } from "./table.ts";

const ROOT = "manifest";

export function documentOf(manifest: unknown): Document | Fault {
  return read(manifest, ROOT, []);
}

function read(manifest: unknown, name: string, trail: readonly unknown[]): Document | Fault {
  if (!isTable(manifest)) return { problem: `${shown(manifest)} is no manifest`, fix: "write an object" };
  if (trail.includes(manifest)) return { problem: "the network uses itself", fix: "take this use out" };
  const nodes = isTable(manifest.nodes) ? Object.entries(manifest.nodes) : [];
  const uses = nodes.flatMap(([node, value]) =>
    isTable(value) && value.use !== undefined
      ? [[node, read(value.use, `${name}.nodes.${node}.use`, [...trail, manifest])] as const]
      : [],
  );
  return {
    file: name,
    identity: manifest,
    table: manifest,
    lineOf: () => undefined,
    uses: new Map(uses),
    codeOf: (value) =>
      typeof value === "string"
        ? { problem: `${shown(value)} is the name of something`, fix: "write the function or schema itself" }
        : { code: value },
  };
}
