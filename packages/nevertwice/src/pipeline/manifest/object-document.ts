/** Manifests that are objects: the same tables as in a file, with functions where a file has references to code. */
import { isPlainObject } from "../../core/plain-object.ts";
import type { Document, ManifestFault } from "./document.ts";
import { shown } from "./table-reader.ts";

const ROOT = "manifest";

export function documentFromObject(manifest: unknown): Document | ManifestFault {
  return read(manifest, ROOT, []);
}

function read(manifest: unknown, name: string, trail: readonly unknown[]): Document | ManifestFault {
  if (!isPlainObject(manifest))
    return { problem: `${shown(manifest)} is not a manifest`, fix: "write an object" };
  if (trail.includes(manifest)) return { problem: "the network uses itself", fix: "remove this use" };
  const nodes = isPlainObject(manifest.nodes) ? Object.entries(manifest.nodes) : [];
  const uses = nodes.flatMap(([node, value]) =>
    isPlainObject(value) && value.use !== undefined
      ? [[node, read(value.use, `${name}.nodes.${node}.use`, [...trail, manifest])] as const]
      : [],
  );
  return {
    file: name,
    identity: manifest,
    table: manifest,
    findLine: () => undefined,
    uses: new Map(uses),
    findCode: (value) =>
      typeof value === "string"
        ? { problem: `${shown(value)} is a reference`, fix: "write the function or schema itself" }
        : { code: value },
  };
}
