/** A network from its manifests, checked: what it is, how it looks, and how it is started. */
import { describeNetwork, type NetworkDescription } from "./describe.ts";
import type { PipelineGuard } from "./environment.ts";
import { graphOf } from "./graph.ts";
import { assemble, modelOf } from "./manifest/assembly.ts";
import { type Document, isFault } from "./manifest/document.ts";
import { readDocuments } from "./manifest/files.ts";
import { readNode } from "./manifest/node-manifest.ts";
import { documentOf } from "./manifest/objects.ts";
import { type ManifestProblem, manifestInvalid, type Report } from "./manifest/problem.ts";
import type { NetworkManifest } from "./manifest/shape.ts";
import { shownPath } from "./manifest/table.ts";
import { checkConsequences, checkWhole } from "./manifest/whole.ts";
import type { NetworkModel } from "./model.ts";
import type { PipelineOptions } from "./pipeline-options.ts";
import { type Pipeline, startPipeline } from "./run.ts";

export interface Definition {
  readonly model: NetworkModel;
  /** The network as a Mermaid flowchart. */
  graph(): string;
  /** What each node promises, as data: its ports, contract, policies and effects. */
  describe(): NetworkDescription;
  /** Starts its sources, and takes messages. Fails with `options-invalid` on bad options. */
  start(guard: PipelineGuard, options?: PipelineOptions): Promise<Pipeline>;
}

/**
 * Reads a network's manifest and those that it uses, and loads the code that they name. Fails with `manifest-invalid`
 * and every problem that there is, each with its file, its line and its fix.
 */
export async function loadPipeline(file: string | URL): Promise<Definition> {
  const problems: ManifestProblem[] = [];
  const document = await readDocuments(file, problems);
  return definitionOf(document, problems);
}

/** The same from an object, with functions where a file has references. Fails with `manifest-invalid`. */
export function definePipeline(manifest: NetworkManifest): Definition {
  const document = documentOf(manifest);
  if (!isFault(document)) return definitionOf(document, []);
  throw manifestInvalid([{ file: "manifest", line: undefined, at: "", ...document }]);
}

function definitionOf(document: Document | undefined, problems: ManifestProblem[]): Definition {
  const reports =
    ({ file, lineOf }: Document): Report =>
    (path, problem, fix) =>
      problems.push({ file, line: lineOf(path), at: shownPath(path), problem, fix });
  if (document === undefined) throw manifestInvalid(problems);
  const report = reports(document);
  if (!("network" in document.table)) {
    checkAlone(document, report);
    if (problems.length === 0)
      report([], "this is a node, not a network", "name the file of a network that uses it");
    throw manifestInvalid(problems);
  }
  const assembly = assemble(document, reports);
  checkWhole(assembly);
  if (problems.length === 0) checkConsequences(assembly, report);
  if (problems.length > 0) throw manifestInvalid(problems);
  const model = modelOf(assembly);
  return {
    model,
    graph: () => graphOf(model),
    describe: () => describeNetwork(model),
    start: async (guard, options) => startPipeline(model, guard, options),
  };
}

/** Whoever names the file of a node instead of a network's learns first what is wrong in it. */
function checkAlone(document: Document, report: Report): void {
  if ("node" in document.table) readNode(document, report);
  else report([], "this has no [network]", 'add [network] with id = "billing" and version = "1.0.0"');
}
