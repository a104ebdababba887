/** A network that was read from its manifests and checked. It can be described, drawn and started. */
import { describeNetwork, type NetworkDescription } from "./description.ts";
import { drawGraph } from "./graph.ts";
import { assemble, toModel } from "./manifest/assembly.ts";
import { type Document, isManifestFault } from "./manifest/document.ts";
import { documentFromFile } from "./manifest/file-document.ts";
import type { NetworkManifest } from "./manifest/manifest.ts";
import { checkNetwork, checkWiring } from "./manifest/network-checks.ts";
import { readNode } from "./manifest/node-manifest.ts";
import { documentFromObject } from "./manifest/object-document.ts";
import { type ManifestProblem, manifestInvalid, type Report } from "./manifest/problem.ts";
import { shownPath } from "./manifest/table-reader.ts";
import type { NetworkModel } from "./model.ts";
import type { PipelineGuard } from "./network-context.ts";
import { type Pipeline, startPipeline } from "./pipeline.ts";
import type { PipelineOptions } from "./pipeline-options.ts";

export interface Definition {
  readonly model: NetworkModel;
  /** The network as a Mermaid flowchart. */
  graph(): string;
  /** Each node as data: its ports, contract, policies and effects. */
  describe(): NetworkDescription;
  /** Starts the sources and accepts messages. Rejects with `options-invalid` on bad options. */
  start(guard: PipelineGuard, options?: PipelineOptions): Promise<Pipeline>;
}

/**
 * Reads a network's manifest and the manifests that it uses, and loads the code that they name. Rejects with
 * `manifest-invalid`, which lists every problem with its file, its line and its fix.
 */
export async function loadPipeline(file: string | URL): Promise<Definition> {
  const problems: ManifestProblem[] = [];
  const document = await documentFromFile(file, problems);
  return createDefinition(document, problems);
}

/** The same from an object, with functions where a file has references to code. Throws `manifest-invalid`. */
export function definePipeline(manifest: NetworkManifest): Definition {
  const document = documentFromObject(manifest);
  if (!isManifestFault(document)) return createDefinition(document, []);
  throw manifestInvalid([{ file: "manifest", line: undefined, at: "", ...document }]);
}

function createDefinition(document: Document | undefined, problems: ManifestProblem[]): Definition {
  const reports =
    ({ file, findLine }: Document): Report =>
    (path, problem, fix) =>
      problems.push({ file, line: findLine(path), at: shownPath(path), problem, fix });
  if (document === undefined) throw manifestInvalid(problems);
  const report = reports(document);
  if (!("network" in document.table)) {
    checkNonNetwork(document, report);
    if (problems.length === 0)
      report([], "this is a node, not a network", "name the file of a network that uses it");
    throw manifestInvalid(problems);
  }
  const assembly = assemble(document, reports);
  checkNetwork(assembly);
  if (problems.length === 0) checkWiring(assembly, report);
  if (problems.length > 0) throw manifestInvalid(problems);
  const model = toModel(assembly);
  return {
    model,
    graph: () => drawGraph(model),
    describe: () => describeNetwork(model),
    start: async (guard, options) => startPipeline(model, guard, options),
  };
}

/** The file is not a network's. If it is a node's, reports that node's problems first. */
function checkNonNetwork(document: Document, report: Report): void {
  if ("node" in document.table) readNode(document, report);
  else report([], "this has no [network]", 'add [network] with id = "billing" and version = "1.0.0"');
}
