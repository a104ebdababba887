/** A network of plain functions on a guard with virtual time: nothing here sleeps. */
import type { GuardOptions } from "../../src/core/engine.ts";
import type {
  Edge,
  EffectShell,
  InPort,
  NetworkModel,
  NodeModel,
  OutPort,
  PortRef,
  PureCore,
  Schema,
  ShellContext,
} from "../../src/pipeline/model.ts";
import { type Pipeline, startPipeline } from "../../src/pipeline/pipeline.ts";
import type { PipelineEvent } from "../../src/pipeline/pipeline-event.ts";
import type { PipelineOptions } from "../../src/pipeline/pipeline-options.ts";
import { createScene, type Scene } from "../core/scene.ts";

export interface NodeSketch extends Partial<Omit<NodeModel, "in" | "out" | "contract" | "name">> {
  readonly in?: readonly string[] | Readonly<Record<string, Partial<InPort>>>;
  readonly out?: readonly string[] | Readonly<Record<string, Partial<OutPort>>>;
  readonly core?: (payload: never) => unknown;
  readonly shell?: unknown;
  readonly key?: string | readonly string[];
  readonly onLapsed?: "takeover" | "hold";
  readonly retentionMs?: number;
  readonly timeoutMs?: number;
  readonly retry?: Partial<NonNullable<NodeModel["contract"]["retry"]>>;
}

/** A shell of these tests: it takes the core's decision, and returns what the model allows. */
export type Shell<T = { readonly id: string }> = (decided: T, context: ShellContext) => unknown;

function portsOf<T>(ports: NodeSketch["in"] | NodeSketch["out"], whole: (port: object) => T): Map<string, T> {
  const entries = Array.isArray(ports)
    ? ports.map((name: string) => [name, {}] as const)
    : Object.entries((ports ?? {}) as Record<string, object>);
  return new Map(entries.map(([name, port]) => [name, whole(port)]));
}

function nodeOf(name: string, sketch: NodeSketch): NodeModel {
  const { in: inPorts, out, core, shell, key, onLapsed, retentionMs, timeoutMs, retry, ...rest } = sketch;
  const kind = rest.kind ?? "transform";
  const [first] = Array.isArray(out) ? out : Object.keys(out ?? {});
  const passOn: Shell<unknown> = (decided, { emit }) =>
    first === undefined ? undefined : emit(first as string, decided);
  return {
    name,
    id: name,
    version: "1.0.0",
    doc: {},
    effects: new Map(),
    config: {},
    reply: false,
    concurrency: 1,
    ...rest,
    kind,
    in: portsOf(kind === "source" ? {} : (inPorts ?? ["in"]), (port) => ({
      schema: undefined,
      buffer: 100,
      ...port,
    })),
    out: portsOf(out, (port) => ({ schema: undefined, ...port })),
    contract: {
      pureCore: (core ?? ((payload: unknown) => payload)) as PureCore,
      effectShell: (shell ?? passOn) as EffectShell,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(retry === undefined
        ? {}
        : {
            retry: { max: 3, strategy: "constant", baseMs: 100, capMs: 30_000, jitter: 0, on: [], ...retry },
          }),
      ...(key === undefined
        ? {}
        : {
            idempotency: {
              fields: typeof key === "string" ? [key] : key,
              ...(onLapsed === undefined ? {} : { onLapsed }),
              ...(retentionMs === undefined ? {} : { retentionMs }),
            },
          }),
    },
  };
}

export interface NetworkSketch {
  readonly id?: string;
  readonly nodes: Readonly<Record<string, NodeSketch>>;
  /** `"a.out > b.in"`. */
  readonly edges?: readonly string[];
  readonly in?: Readonly<Record<string, string>>;
  readonly out?: Readonly<Record<string, string>>;
  readonly supervision?: NetworkModel["supervision"];
}

function refOf(text: string): PortRef {
  const [node = "", port = ""] = text.trim().split(".");
  return { node, port };
}

export function modelOf({ id = "shop", nodes, edges = [], ...sketch }: NetworkSketch): NetworkModel {
  const refs = (names: Readonly<Record<string, string>> = {}) =>
    new Map(Object.entries(names).map(([name, text]) => [name, refOf(text)]));
  return {
    id,
    version: "1.0.0",
    nodes: new Map(Object.entries(nodes).map(([name, node]) => [name, nodeOf(name, node)])),
    edges: edges.map((text): Edge => {
      const [from = "", to = ""] = text.split(">");
      return { from: refOf(from), to: refOf(to) };
    }),
    exposed: { in: refs(sketch.in), out: refs(sketch.out) },
    supervision: sketch.supervision ?? { strategy: "one-for-one", restarts: 3, withinMs: 5_000 },
  };
}

export interface PipelineScene extends Omit<Scene, "events" | "kinds"> {
  readonly pipeline: Pipeline;
  readonly events: PipelineEvent[];
  /** The kinds of events so far, with their nodes: `charge completed`. */
  reported(...kinds: readonly PipelineEvent["kind"][]): string[];
  /** The same network again on the same store, as another process would run it. */
  again(options?: Partial<PipelineOptions>, model?: NetworkModel): Pipeline;
}

export function createPipelineScene(
  sketch: NetworkSketch,
  options: PipelineOptions = {},
  guardOptions: Partial<GuardOptions> = {},
): PipelineScene {
  const scene = createScene(guardOptions);
  const events: PipelineEvent[] = [];
  const model = modelOf(sketch);
  const start = (
    guard: Scene["guard"],
    more: Partial<PipelineOptions> = {},
    started: NetworkModel = model,
  ): Pipeline =>
    startPipeline(
      started,
      guard,
      { onEvent: (event) => events.push(event), ...options, ...more },
      { timer: scene.world, random: () => 0.5 },
    );
  return {
    ...scene,
    pipeline: start(scene.guard),
    events,
    reported: (...kinds) =>
      events
        .filter(({ kind }) => kinds.length === 0 || kinds.includes(kind))
        .map((event) => `${"node" in event ? event.node : "network"} ${event.kind}`),
    again: (more, started) => start(scene.another(), more, started),
  };
}

/** A schema for objects with text in `field`. */
export function textField(field: string, name = "Order@1"): Schema {
  return {
    name,
    check(payload) {
      if (typeof (payload as Record<string, unknown> | null)?.[field] === "string") return payload;
      throw new TypeError(`${field} is no text`);
    },
  };
}
