/**
 * Assembles a network from its manifest and the manifests that it uses. A network that is used as a node is flattened: its
 * nodes get its name as a prefix, and its exposed ports become the ports of that node.
 */
import { nearest } from "../../core/did-you-mean.ts";
import type { Edge, NetworkModel, NodeModel, PortRef, Schema, Supervision } from "../model.ts";
import { type Document, isManifestFault } from "./document.ts";
import { type NetworkDraft, type PortAddress, readNetwork, type SchemaDraft } from "./network-manifest.ts";
import { overrideConfig } from "./node-config.ts";
import type { NodeDraft } from "./node-draft.ts";
import { readNode } from "./node-manifest.ts";
import type { Report } from "./problem.ts";
import type { Path } from "./toml-lines.ts";

/** The place in a manifest where a value is written. */
export interface Origin {
  readonly report: Report;
  readonly path: Path;
}

export interface Assembly {
  readonly id: string;
  readonly version: string;
  readonly supervision: Supervision;
  readonly nodes: ReadonlyMap<string, PlacedNode>;
  readonly edges: readonly PlacedEdge[];
  readonly in: ReadonlyMap<string, OpenPort>;
  readonly out: ReadonlyMap<string, OpenPort>;
  /** Including those of the networks that it uses: a name means the same schema in all of them. */
  readonly schemas: NetworkDraft["schemas"];
  /** The network itself and the networks that it uses. */
  readonly levels: readonly Level[];
}

export interface PlacedNode extends Origin {
  readonly model: NodeModel;
  readonly document: Document;
  readonly lint: readonly string[];
}

export interface PlacedEdge extends Origin, Edge {}

/** A port that edges may connect to. */
interface OpenPort {
  readonly ref: PortRef;
  readonly schema: string | undefined;
}

/** What one name in a network refers to: a node, or another network with its exposed ports. */
export interface Member {
  readonly in: ReadonlyMap<string, OpenPort>;
  readonly out: ReadonlyMap<string, OpenPort>;
  readonly nodes: ReadonlyMap<string, PlacedNode>;
  readonly edges: readonly PlacedEdge[];
  readonly levels: readonly Level[];
  readonly isNetwork: boolean;
}

/** One network without those that it uses. Each of its ports must be connected or exposed. */
export interface Level {
  readonly members: ReadonlyMap<string, Member>;
  readonly edges: readonly PlacedEdge[];
  readonly in: ReadonlyMap<string, OpenPort>;
  readonly out: ReadonlyMap<string, OpenPort>;
  readonly report: Report;
}

export type Reports = (document: Document) => Report;

export function assemble(document: Document, reports: Reports, prefix = ""): Assembly {
  const report = reports(document);
  const draft = readNetwork(document, report);
  const members = new Map<string, Member>();
  const schemas = new Map(draft.schemas);
  for (const name of draft.nodes) {
    const used = document.uses.get(name);
    if (used === undefined || isManifestFault(used)) continue;
    const origin = { report, path: ["nodes", name, "use"] };
    const isNetwork = "network" in used.table;
    if (isNetwork && draft.configs.has(name))
      report(
        ["nodes", name, "config"],
        `${name} is a network, which has no [config]`,
        "set it where that network uses the node",
      );
    const member = isNetwork
      ? networkMember(assemble(used, reports, `${prefix}${name}/`), schemas, origin)
      : nodeMember(`${prefix}${name}`, readNode(used, reports(used)), draft, origin);
    members.set(name, member);
  }
  const ports = resolver(draft, members, report);
  const edges = wire(draft, ports, report);
  const exposed = { in: expose(draft, ports, "in"), out: expose(draft, ports, "out") };
  const all = [...members.values()];
  return {
    id: draft.id,
    version: draft.version,
    supervision: draft.supervision,
    schemas,
    nodes: deployed(draft, prefix, new Map(all.flatMap(({ nodes }) => [...nodes])), members, report),
    edges: [...all.flatMap((member) => member.edges), ...edges],
    levels: [{ members, edges, ...exposed, report }, ...all.flatMap(({ levels }) => levels)],
    ...exposed,
  };
}

function nodeMember(name: string, draft: NodeDraft, network: NetworkDraft, origin: Origin): Member {
  const findSchema = (schema: string | undefined): Schema | undefined => {
    if (schema === undefined) return undefined;
    if (!network.schemas.has(schema)) reportSchema(schema, name, network, origin);
    return network.schemas.get(schema)?.schema;
  };
  const { document, in: inPorts, out: outPorts, lint, ...rest } = draft;
  const given = network.configs.get(origin.path[1] as string);
  const model: NodeModel = {
    ...rest,
    name,
    config: given === undefined ? rest.config : overrideConfig(rest.config, given),
    in: mapped(inPorts, ({ schema, buffer }) => ({ schema: findSchema(schema), buffer })),
    out: mapped(outPorts, ({ schema }) => ({ schema: findSchema(schema) })),
    concurrency: 1,
  };
  const open = (ports: NodeDraft["in"]) =>
    mapped(ports, ({ schema }, port): OpenPort => ({ ref: { node: name, port }, schema }));
  return {
    in: open(inPorts),
    out: open(outPorts),
    nodes: new Map([[name, { model, document, lint, ...origin }]]),
    edges: [],
    levels: [],
    isNetwork: false,
  };
}

function reportSchema(schema: string, name: string, network: NetworkDraft, { report, path }: Origin): void {
  const near = nearest(schema, network.schemas.keys());
  report(
    path,
    `${name} has a port with the schema "${schema}", which the network does not declare`,
    `add "${schema}" = "./schemas.js#name" under [schemas]${near === undefined ? "" : `, which has "${near}"`}`,
  );
}

function networkMember(
  assembly: Assembly,
  schemas: Map<string, SchemaDraft | undefined>,
  { report, path }: Origin,
): Member {
  for (const [name, theirs] of assembly.schemas) {
    const known = schemas.get(name);
    if (known !== undefined && theirs !== undefined && known.code !== theirs.code)
      report(
        path,
        `"${name}" is a different schema in the network that is used`,
        "make both name the same code, or give one of them another version",
      );
    else schemas.set(name, known ?? theirs);
  }
  return { ...assembly, isNetwork: true };
}

type PortLookup = (address: PortAddress, side: "in" | "out") => OpenPort | undefined;

/** Finds the port that an address names. Reports a problem if there is none. */
function resolver(draft: NetworkDraft, members: ReadonlyMap<string, Member>, report: Report): PortLookup {
  return ({ node, port, path }, side) => {
    const member = members.get(node);
    if (member === undefined) {
      // The node is listed but could not be read: that problem is already reported.
      if (draft.nodes.includes(node)) return undefined;
      report(path, `there is no node "${node}"`, choose(node, draft.nodes, `add ${node} under [nodes]`));
      return undefined;
    }
    const found = member[side].get(port);
    if (found !== undefined) return found;
    const other = side === "in" ? "out" : "in";
    const fix = member[other].has(port)
      ? `name an ${side}-port: "${port}" is an ${other}-port`
      : choose(port, [...member[side].keys()], `add ${port} to the ${side}-ports of ${node}`);
    report(path, `"${node}" has no ${side}-port "${port}"`, fix);
    return undefined;
  };
}

function choose(name: string, known: readonly string[], otherwise: string): string {
  const near = nearest(name, known);
  if (near !== undefined) return `write "${near}"`;
  return known.length === 0 ? otherwise : `write one of ${known.join(", ")}, or ${otherwise}`;
}

function wire(draft: NetworkDraft, ports: PortLookup, report: Report): readonly PlacedEdge[] {
  const seen = new Set<string>();
  return draft.edges.flatMap(({ from, to }) => {
    const start = ports(from, "out");
    const end = ports(to, "in");
    if (start === undefined || end === undefined) return [];
    const name = JSON.stringify([start.ref, end.ref]);
    if (seen.has(name))
      report(to.path, "this edge is listed twice, so each message would arrive twice", "remove one");
    seen.add(name);
    if (start.schema !== undefined && end.schema !== undefined && start.schema !== end.schema)
      report(
        to.path,
        `${from.node}.${from.port} is "${start.schema}" and ${to.node}.${to.port} is "${end.schema}"`,
        "connect ports with the same schema, or put a node in between that converts the payload",
      );
    return [{ from: start.ref, to: end.ref, report, path: to.path }];
  });
}

function expose(draft: NetworkDraft, ports: PortLookup, side: "in" | "out"): ReadonlyMap<string, OpenPort> {
  const found = draft.exposed[side].flatMap(({ name, address }) => {
    const port = ports(address, side);
    return port === undefined ? [] : [[name, port] as const];
  });
  return new Map(found);
}

/** The nodes with their concurrency. The setting of the outer network overrides that of a network that it uses. */
function deployed(
  draft: NetworkDraft,
  prefix: string,
  nodes: ReadonlyMap<string, PlacedNode>,
  members: ReadonlyMap<string, Member>,
  report: Report,
): ReadonlyMap<string, PlacedNode> {
  const result = new Map(nodes);
  for (const { node, count, path } of draft.concurrency) {
    const placed = nodes.get(`${prefix}${node}`);
    if (placed !== undefined) {
      result.set(`${prefix}${node}`, { ...placed, model: { ...placed.model, concurrency: count } });
      continue;
    }
    const isUnread = draft.nodes.includes(node) && !members.has(node);
    if (isUnread) continue;
    const own = [...nodes.keys()].map((name) => name.slice(prefix.length));
    if (members.get(node)?.isNetwork)
      report(
        path,
        `"${node}" is a network`,
        `name one of its nodes: ${own.filter((name) => name.startsWith(`${node}/`)).join(", ")}`,
      );
    else report(path, `there is no node "${node}"`, choose(node, own, `add ${node} under [nodes]`));
  }
  return result;
}

function mapped<T, U>(
  map: ReadonlyMap<string, T>,
  change: (value: T, key: string) => U,
): ReadonlyMap<string, U> {
  return new Map([...map].map(([key, value]) => [key, change(value, key)]));
}

/** The model of an assembly that has no problems. */
export function toModel({
  id,
  version,
  supervision,
  nodes,
  edges,
  in: inPorts,
  out,
}: Assembly): NetworkModel {
  return {
    id,
    version,
    supervision,
    nodes: mapped(nodes, ({ model }) => model),
    edges: edges.map(({ from, to }) => ({ from, to })),
    exposed: { in: mapped(inPorts, ({ ref }) => ref), out: mapped(out, ({ ref }) => ref) },
  };
}
