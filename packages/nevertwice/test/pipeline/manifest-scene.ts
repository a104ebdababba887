/** Networks that are written as manifests, on a guard with virtual time: no test that uses it sleeps. */
import type { GuardOptions } from "../../src/core/engine.ts";
import { compositeKey } from "../../src/core/key.ts";
import { definePipeline } from "../../src/pipeline/definition.ts";
import type { NetworkManifest, NodeManifest } from "../../src/pipeline/manifest/manifest.ts";
import type { PushOutcome } from "../../src/pipeline/message-outcome.ts";
import type { EffectShell } from "../../src/pipeline/model.ts";
import { type Pipeline, startPipeline } from "../../src/pipeline/pipeline.ts";
import type { PipelineEvent } from "../../src/pipeline/pipeline-event.ts";
import type { PipelineOptions, PushOptions } from "../../src/pipeline/pipeline-options.ts";
import { createScene, type Scene } from "../core/scene.ts";

export interface Order {
  readonly id: string;
}

export const SECOND_MS = 1_000;
export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

interface NodeParts extends Partial<Omit<NodeManifest, "contract" | "node">> {
  readonly kind?: NodeManifest["node"]["kind"];
  readonly reply?: boolean;
  readonly contract?: Partial<NodeManifest["contract"]>;
}

/** A node by its shell: a sink without a key, unless it says otherwise. */
export function nodeOf(id: string, effect_shell: EffectShell, parts: NodeParts = {}): { use: NodeManifest } {
  const { kind = "sink", reply = false, contract, ...rest } = parts;
  return {
    use: {
      node: { id, version: "1.0.0", kind, reply },
      ports: { in: { in: {} } },
      ...rest,
      contract: { pure_core: (payload: unknown) => payload, effect_shell, ...contract },
    },
  };
}

export const KEYED = { contract: { idempotency: { key: "id" } } } as const;

/** A network of one node, `charge`, whose key is `id`. */
export function shopOf(
  charge: EffectShell,
  contract: Partial<NodeManifest["contract"]> = {},
  parts: NodeParts = {},
): NetworkManifest {
  return {
    network: { id: "shop", version: "1.0.0" },
    nodes: { charge: nodeOf("charge", charge, { ...parts, contract: { ...KEYED.contract, ...contract } }) },
    expose: { in: { orders: "charge.in" } },
  };
}

/** The subject of a key of the node `charge` in the network `shop`. */
export function chargeOf(key: string, node = "charge", network = "shop") {
  return { operation: `${network}/${node}`, scope: compositeKey(network, node).text, key };
}

export interface ManifestScene extends Omit<Scene, "events" | "kinds"> {
  readonly pipeline: Pipeline;
  readonly events: PipelineEvent[];
  readonly guardEvents: Scene["events"];
  push(payload: unknown, options?: PushOptions): Promise<PushOutcome>;
  /** The events of these kinds so far, with their nodes: `charge completed`. */
  told(...kinds: readonly PipelineEvent["kind"][]): string[];
  /** The same network as another process runs it, on the same store. */
  again(options?: PipelineOptions): Pipeline;
}

export function createManifestScene(
  manifest: NetworkManifest,
  options: PipelineOptions = {},
  guardOptions: Partial<GuardOptions> = {},
): ManifestScene {
  const { events: guardEvents, ...scene } = createScene(guardOptions);
  const { model } = definePipeline(manifest);
  const events: PipelineEvent[] = [];
  const start = (guard: Scene["guard"], more: PipelineOptions = {}) =>
    startPipeline(
      model,
      guard,
      { onEvent: (event) => events.push(event), ...options, ...more },
      { timer: scene.world, random: () => 0.5 },
    );
  const pipeline = start(scene.guard);
  return {
    ...scene,
    ...{ pipeline, events, guardEvents },
    push: (payload, more) => scene.settle(pipeline.push("orders", payload, more)),
    told: (...kinds) =>
      events
        .filter(({ kind }) => kinds.includes(kind))
        .map((event) => `${"node" in event ? event.node : "network"} ${event.kind}`),
    again: (more) => start(scene.another(), more),
  };
}

/** A process dies during its work, and the claim that it held lapses. */
export async function crashWhile(scene: ManifestScene, payload: unknown): Promise<void> {
  const guard = scene.another({ drainMs: 0 });
  void guard.tryRun({ ...chargeOf((payload as Order).id), leaseMs: SECOND_MS }, () => new Promise(() => {}));
  await scene.advance(1);
  await scene.settle(guard.close());
  await scene.advance(SECOND_MS);
}
