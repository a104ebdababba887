/** Where each out-port of a network leads: to in-ports of other nodes, and out of the network. */
import type { NetworkModel, NodeModel, PortRef, Schema } from "./model.ts";

/** Receives what leaves the network by an exposed port. If it throws, the message is sent again, but no node runs again. */
export type OutHandler = (payload: never, message: OutMessage) => unknown;

/** A message that leaves the network. */
export interface OutMessage {
  /** The id of the message. */
  readonly id: string;
  /** The ids of the messages that it was made of. */
  readonly parents: readonly string[];
  /** The trace of the pushed message. */
  readonly trace: string;
  /** It may have left before: an earlier delivery got at least as far as the last node with a key. */
  readonly isRecovered: boolean;
}

export interface PortRoute {
  readonly edges: readonly PortRef[];
  readonly handlers: readonly OutHandler[];
  /** Undefined if every in-port that it leads to checks the same schema. */
  readonly schema: Schema | undefined;
}

/** Finds the route of an out-port. Undefined if the node has no such port. */
export type Routes = (node: string, port: string) => PortRoute | undefined;

export function createRoutes(model: NetworkModel, handlers: Readonly<Record<string, OutHandler>>): Routes {
  const routes = new Map<string, PortRoute>();
  for (const node of model.nodes.values())
    for (const port of node.out.keys())
      routes.set(routeName(node.name, port), createRoute(model, handlers, node, port));
  return (node, port) => routes.get(routeName(node, port));
}

function createRoute(
  model: NetworkModel,
  handlers: Readonly<Record<string, OutHandler>>,
  { name, out }: NodeModel,
  port: string,
): PortRoute {
  const schema = out.get(port)?.schema;
  const isHere = (ref: PortRef) => ref.node === name && ref.port === port;
  const edges = model.edges.filter(({ from }) => isHere(from)).map(({ to }) => to);
  const exposed = [...model.exposed.out].filter(([, ref]) => isHere(ref));
  const isCheckedThere = (to: PortRef) =>
    schema !== undefined && model.nodes.get(to.node)?.in.get(to.port)?.schema?.name === schema.name;
  const isNeeded = exposed.length > 0 || !edges.every(isCheckedThere);
  return {
    edges,
    handlers: exposed.flatMap(([exposedName]) => handlers[exposedName] ?? []),
    schema: isNeeded ? schema : undefined,
  };
}

function routeName(node: string, port: string): string {
  return JSON.stringify([node, port]);
}
