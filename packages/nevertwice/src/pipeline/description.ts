/** A network as plain data, for operators and tools. */
import type { EffectGrant, Kind, NetworkModel, NodeModel, PortRef, Supervision } from "./model.ts";

/** A network as plain data. */
export interface NetworkDescription {
  /** The id in the manifest. */
  readonly id: string;
  /** The version in the manifest. */
  readonly version: string;
  /** What happens when a source fails. */
  readonly supervision: Supervision;
  /** The nodes, with those of networks that are used as nodes. */
  readonly nodes: readonly NodeDescription[];
  /** `charge.charged` to `ship.in`. */
  readonly edges: readonly {
    /** The node and the out-port: `charge.charged`. */
    readonly from: string;
    /** The node and the in-port: `ship.in`. */
    readonly to: string;
  }[];
  /** The network's own ports, each with the port of a node behind it. */
  readonly exposed: {
    /** Where messages enter. */
    readonly in: Readonly<Record<string, string>>;
    /** Where messages leave. */
    readonly out: Readonly<Record<string, string>>;
  };
}

/** A node as plain data. */
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
  /** What the node does: it brings messages, transforms, routes or ends them. */
  readonly kind: Kind;
  /** `schema` is undefined for a port that accepts any payload. */
  readonly in: Readonly<
    Record<
      string,
      {
        /** The name of the schema; undefined accepts any payload. */
        readonly schema?: string;
        /** How many messages may wait before the sender has to wait. */
        readonly buffer: number;
      }
    >
  >;
  /** The out-ports, by name. */
  readonly out: Readonly<
    Record<
      string,
      {
        /** The name of the schema; undefined accepts any payload. */
        readonly schema?: string;
      }
    >
  >;
  /** By axis. An empty `allow` permits everything on the axis. */
  readonly effects: Readonly<Record<string, EffectGrant>>;
  /** The promises of the node: timeout, retries and idempotency. */
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
