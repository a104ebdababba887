/** Reads a network's manifest with everything that it uses, or a single node's, and checks it as a whole. */
import { type Assembly, assemble, type PlacedNode } from "./assembly.ts";
import type { Document } from "./document.ts";
import { documentFromFile } from "./file-document.ts";
import { checkNetwork, checkWiring } from "./network-checks.ts";
import { readNode } from "./node-manifest.ts";
import { type ManifestProblem, manifestInvalid, manifestProblems, type Report } from "./problem.ts";
import { shownPath } from "./table-reader.ts";

/** The network of a document. Throws `manifest-invalid` with all problems, those found before included. */
export function checkedAssembly(document: Document | undefined, problems: ManifestProblem[]): Assembly {
  const reports = reportsTo(problems);
  if (document === undefined) throw manifestInvalid(problems);
  const report = reports(document);
  if (!("network" in document.table)) {
    if ("node" in document.table) readNode(document, report);
    else report([], "this has no [network]", 'add [network] with id = "billing" and version = "1.0.0"');
    if (problems.length === 0)
      report([], "this is a node, not a network", "name the file of a network that uses it");
    throw manifestInvalid(problems);
  }
  const assembly = assemble(document, reports);
  checkNetwork(assembly);
  if (problems.length === 0) checkWiring(assembly, report);
  if (problems.length > 0) throw manifestInvalid(problems);
  return assembly;
}

/** The nodes of a file, which may be that of one node, and the problems of all manifests. */
export async function readAssembly(
  file: string | URL,
): Promise<{ readonly nodes: readonly PlacedNode[]; readonly problems: readonly ManifestProblem[] }> {
  const problems: ManifestProblem[] = [];
  const document = await documentFromFile(file, problems);
  if (document !== undefined && "node" in document.table) {
    const report = reportsTo(problems)(document);
    const { in: _in, out, lint, document: _document, ...draft } = readNode(document, report);
    const open = new Map([...out.keys()].map((port) => [port, { schema: undefined }]));
    const model = { ...draft, name: draft.id, in: new Map(), out: open, concurrency: 1 };
    return { nodes: [{ model, document, lint, report, path: [] }], problems };
  }
  try {
    return { nodes: [...checkedAssembly(document, problems).nodes.values()], problems: [] };
  } catch (error) {
    const found = manifestProblems(error);
    if (found.length === 0) throw error;
    return { nodes: [], problems: found };
  }
}

function reportsTo(problems: ManifestProblem[]): (document: Document) => Report {
  return ({ file, findLine }) =>
    (path, problem, fix) =>
      problems.push({ file, line: findLine(path), at: shownPath(path), problem, fix });
}
