/** The networks that run in the process of this server, and what the dashboard shows of them. */
import { type Guard, NevertwiceError } from "nevertwice";
import type { Definition, Pipeline, PipelineOptions } from "nevertwice/pipeline";
import type { NetworkFiguresJson, NetworkJson } from "../api/api-json.ts";
import { createHeldKeys } from "./held-keys.ts";
import { createJourneys, type Journeys } from "./journeys.ts";
import { shownNodes, toNetworkJson } from "./network-json.ts";
import { createPipelineFigures, type PipelineFigures } from "./pipeline-figures.ts";

const MAX_NETWORKS = 20;

export interface StartOptions extends PipelineOptions {
  /** Whose keys they are, and who may see the network. */
  readonly namespace: string;
}

export interface Pipelines {
  /** Starts a network on the guard of a namespace. Closing it removes it from the dashboard. */
  start(definition: Definition, options: StartOptions): Promise<Pipeline>;
  /** Undefined for `namespace` sees all. */
  networks(namespace: string | undefined): readonly NetworkJson[];
  figures(namespace: string | undefined): Promise<readonly NetworkFiguresJson[]>;
  journeys(network: string, namespace: string | undefined): Journeys | undefined;
  close(): Promise<void>;
}

interface RunningNetwork {
  readonly definition: Definition;
  readonly namespace: string;
  readonly pipeline: Pipeline;
  readonly figures: PipelineFigures;
  readonly journeys: Journeys;
  readonly startedAt: number;
  /** The undecided keys of each node that has keys. */
  readonly held: () => Promise<ReadonlyMap<string, number>>;
}

export function createPipelines(
  findGuard: (namespace: string) => Guard,
  now: () => number = Date.now,
): Pipelines {
  const running = new Map<string, RunningNetwork>();
  /** Reserved while a network starts, so that two equal ids cannot pass the check together. */
  const starting = new Set<string>();

  const visible = (namespace: string | undefined) =>
    [...running.values()].filter((one) => namespace === undefined || one.namespace === namespace);

  function checkRoom(id: string): void {
    if (running.has(id) || starting.has(id))
      throw new NevertwiceError("options-invalid", `the network ${id} is already running in this server.`);
    if (running.size + starting.size >= MAX_NETWORKS)
      throw new NevertwiceError("options-invalid", `a server runs at most ${MAX_NETWORKS} networks.`);
  }

  return {
    async start(definition, { namespace, onEvent, ...options }) {
      const { model } = definition;
      checkRoom(model.id);
      const guard = findGuard(namespace);
      const figures = createPipelineFigures(model, now);
      const journeys = createJourneys(now);
      starting.add(model.id);
      try {
        const pipeline = await definition.start(guard, {
          ...options,
          onEvent(event) {
            figures.observe(event);
            journeys.observe(event);
            onEvent?.(event);
          },
        });
        const held = createHeldKeys(model, guard, now);
        running.set(model.id, { definition, namespace, pipeline, figures, journeys, startedAt: now(), held });
        return {
          ...pipeline,
          async close() {
            const left = await pipeline.close();
            running.delete(model.id);
            return left;
          },
        };
      } finally {
        starting.delete(model.id);
      }
    },
    networks: (namespace) =>
      visible(namespace).map(({ definition, startedAt }) => toNetworkJson(definition, startedAt)),
    figures: (namespace) => Promise.all(visible(namespace).map(toFigures)),
    journeys: (network, namespace) =>
      visible(namespace).find(({ definition }) => definition.model.id === network)?.journeys,
    async close() {
      await Promise.all([...running.values()].map(({ pipeline }) => pipeline.close()));
      running.clear();
    },
  };
}

async function toFigures({
  definition,
  pipeline,
  figures,
  journeys,
  held,
}: RunningNetwork): Promise<NetworkFiguresJson> {
  const { status, underWay, nodes } = pipeline.health();
  const heldKeys = await held();
  return {
    id: definition.model.id,
    status,
    underWay,
    notFollowed: journeys.notFollowed(),
    nodes: shownNodes(definition).map(({ name }) => ({
      name,
      waiting: nodes[name]?.waiting ?? 0,
      active: nodes[name]?.active ?? 0,
      restarts: nodes[name]?.restarts ?? 0,
      held: heldKeys.get(name) ?? null,
      ...figures.minute(name),
    })),
  };
}
