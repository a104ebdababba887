/** A network as plain data, for operators and tools. */
import type { EffectGrant, Kind, NetworkModel, NodeModel, PortRef, Supervision } from "./model.ts";

export interface NetworkDescription {
  readonly id: string;
  readonly version: string;
  readonly supervision: Supervision;
  readonly nodes: readonly NodeDescription[];
  /** `charge.charged` to `ship.in`. */
  readonly edges: readonly { readonly from: string; readonly to: string }[];
  readonly exposed: {
    readonly in: Readonly<Record<string, string>>;
    readonly out: Readonly<Record<string, string>>;
  };
}

export interface NodeDescription
  extends Pick<
    NodeModel,
    | "name"
    | "id"
    | "version"
    | "doc"
    | "batch"
    | "join"
    | "rate"
    | "delayMs"
    | "capture"
    | "reply"
    | "concurrency"
    | "config"
  > {
  readonly kind: Kind;
  /** `schema` is undefined for a port that accepts any payload. */
  readonly in: Readonly<Record<string, { readonly schema?: string; readonly buffer: number }>>;
  readonly out: Readonly<Record<string, { readonly schema?: string }>>;
  /** By axis. An empty `allow` permits everything on the axis. */
  readonly effects: Readonly<Record<string, EffectGrant>>;
  readonly contract: Omit<NodeModel["contract"], "pureCore" | "effectShell">;
}

export function describeNetwork({
  id,
  version,
  supervision,
  nodes,
  edges,
  exposed,
}: NetworkModel): NetworkDescription {
  return {
    id,
    version,
    supervision,
    nodes: [...nodes.values()].map(describeNode),
    edges: edges.map(({ from, to }) => ({ from: portName(from), to: portName(to) })),
    exposed: { in: described(exposed.in, portName), out: described(exposed.out, portName) },
  };
}

function describeNode(node: NodeModel): NodeDescription {
  const { in: inPorts, out, effects, contract, ...rest } = node;
  const { pureCore: _pureCore, effectShell: _effectShell, ...promises } = contract;
  return {
    ...rest,
    in: described(inPorts, ({ schema, buffer }) => ({ ...(schema && { schema: schema.name }), buffer })),
    out: described(out, ({ schema }) => ({ ...(schema && { schema: schema.name }) })),
    effects: described(effects, (grant) => grant),
    contract: promises,
  };
}

function portName({ node, port }: PortRef): string {
  return `${node}.${port}`;
}

function described<T, U>(
  map: ReadonlyMap<string, T>,
  describe: (value: T) => U,
): Readonly<Record<string, U>> {
  return Object.fromEntries([...map].map(([key, value]) => [key, describe(value)]));
}
