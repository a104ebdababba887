/** A network that was read from its manifests and checked. It can be described, drawn and started. */
import { describeNetwork, type NetworkDescription } from "./description.ts";
import { drawGraph } from "./graph.ts";
import { checkedAssembly } from "./manifest/assembled-manifest.ts";
import { toModel } from "./manifest/assembly.ts";
import { type Document, isManifestFault } from "./manifest/document.ts";
import { documentFromFile } from "./manifest/file-document.ts";
import type { NetworkManifest } from "./manifest/manifest.ts";
import { documentFromObject } from "./manifest/object-document.ts";
import { type ManifestProblem, manifestInvalid } from "./manifest/problem.ts";
import type { NetworkModel } from "./model.ts";
import type { PipelineGuard } from "./network-context.ts";
import { type Pipeline, startPipeline } from "./pipeline.ts";
import type { PipelineOptions } from "./pipeline-options.ts";

/** A network that was read and checked, ready to start. */
export interface Definition {
  /** The network as the runtime sees it: flat, with all references resolved. */
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
 * @throws `manifest-invalid`
 * @example
 * ```ts server
 * import { createGuard } from "nevertwice";
 * import { loadPipeline } from "nevertwice/pipeline";
 * import { openStore } from "nevertwice/stores/open";
 *
 * const definition = await loadPipeline("./networks/shop.toml");
 * const guard = createGuard({ store: await openStore("postgres://localhost/shop") });
 * const pipeline = await definition.start(guard);
 * await pipeline.push("orders", { request_id: "r-1", amount: 4_200 });
 * ```
 */
export async function loadPipeline(file: string | URL): Promise<Definition> {
  const problems: ManifestProblem[] = [];
  const document = await documentFromFile(file, problems);
  return createDefinition(document, problems);
}

/**
 * Checks a network that is given as an object, with functions where a file has references to code. Throws `manifest-invalid`.
 * @throws `manifest-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { definePipeline } from "nevertwice/pipeline";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const definition = definePipeline({
 *   network: { id: "shop", version: "1.0.0" },
 *   nodes: {
 *     charge: {
 *       use: {
 *         node: { id: "charge", version: "1.0.0", kind: "sink" },
 *         ports: { in: { in: {} } },
 *         contract: {
 *           pure_core: (order: { amount: number }) => order.amount,
 *           effect_shell: (amount: number) => void console.log(`charged ${amount}`),
 *           idempotency: { key: "request_id" },
 *         },
 *       },
 *     },
 *   },
 *   expose: { in: { orders: "charge.in" } },
 * });
 * const pipeline = await definition.start(createGuard({ store: memoryStore() }));
 * await pipeline.push("orders", { request_id: "r-1", amount: 4_200 });
 * await pipeline.close();
 * ```
 */
export function definePipeline(manifest: NetworkManifest): Definition {
  const document = documentFromObject(manifest);
  if (!isManifestFault(document)) return createDefinition(document, []);
  throw manifestInvalid([{ file: "manifest", line: undefined, at: "", ...document }]);
}

function createDefinition(document: Document | undefined, problems: ManifestProblem[]): Definition {
  const model = toModel(checkedAssembly(document, problems));
  return {
    model,
    graph: () => drawGraph(model),
    describe: () => describeNetwork(model),
    start: async (guard, options) => startPipeline(model, guard, options),
  };
}
