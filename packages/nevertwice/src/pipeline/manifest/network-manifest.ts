/** Reads and checks a network's manifest alone; assembly.ts reads the nodes and networks that it uses. */
import { isPlainObject } from "../../core/plain-object.ts";
import { reservedProblem } from "../../core/reserved.ts";
import type { Schema, Supervision } from "../model.ts";
import { type Document, isManifestFault } from "./document.ts";
import type { Report } from "./problem.ts";
import { toSchema } from "./schema.ts";
import { hintsFor, isName, NAME_FIX, readTable, shown, type TableReader } from "./table-reader.ts";
import type { Path } from "./toml-lines.ts";

export interface NetworkDraft {
  readonly id: string;
  readonly version: string;
  /** Undefined for a schema that could not be loaded. */
  readonly schemas: ReadonlyMap<string, SchemaDraft | undefined>;
  /** The names of the nodes, in the order of the manifest. */
  readonly nodes: readonly string[];
  /** The `config` of each node that has one. */
  readonly configs: ReadonlyMap<string, TableReader>;
  readonly edges: readonly EdgeDraft[];
  readonly exposed: { readonly in: readonly ExposedDraft[]; readonly out: readonly ExposedDraft[] };
  readonly supervision: Supervision;
  readonly concurrency: readonly { readonly node: string; readonly count: number; readonly path: Path }[];
}

export interface SchemaDraft {
  readonly schema: Schema;
  /** The loaded code. Two networks share a schema if this is the same. */
  readonly code: unknown;
}

/** A port as a network names it, `charge.in`, and the place where that is written. */
export interface PortAddress {
  readonly node: string;
  readonly port: string;
  readonly path: Path;
}

export interface EdgeDraft {
  readonly from: PortAddress;
  readonly to: PortAddress;
}

export interface ExposedDraft {
  readonly name: string;
  readonly address: PortAddress;
}

const SUPERVISION: Supervision = { strategy: "one-for-one", restarts: 3, withinMs: 5_000 };

export function readNetwork(document: Document, report: Report): NetworkDraft {
  const manifest = readTable(report, document.table);
  const { id, version } = readHead(manifest);
  const draft: NetworkDraft = {
    id,
    version,
    schemas: readSchemas(document, manifest),
    ...readNodes(document, manifest),
    edges: readEdges(manifest, report),
    exposed: readExposed(manifest),
    supervision: readSupervision(manifest),
    concurrency: readConcurrency(manifest),
  };
  manifest.done({
    edge: "write [[edges]]",
    node_defaults: "write it in the file of each node",
    exposed: "write [expose]",
    effects: "write it in the file of the node",
    concurrency: "write it in [deploy]",
    contract: "write it in the file of the node",
    node: "a file is a node or a network, not both",
  });
  return draft;
}

function readHead(manifest: TableReader): { id: string; version: string } {
  const network = manifest.table("network");
  if (network === undefined) return { id: "", version: "" };
  const id = network.text("id");
  const version = network.text("version");
  if (!network.has("id")) network.missing("id", 'add id = "billing"; claims are stored under it');
  // The operation of each node begins with the id of its network.
  const problem = reservedProblem(id, "network.id");
  if (problem !== undefined) network.wrong("id", problem, 'choose another one, e.g. "billing"');
  if (!network.has("version")) network.missing("version", 'add version = "1.0.0"');
  network.done({
    name: "write id",
    runtime: "leave it out: a network runs in the process that starts it",
    placement: "leave it out: a network runs in the process that starts it",
  });
  return { id: id ?? "", version: version ?? "" };
}

function readSchemas(
  document: Document,
  manifest: TableReader,
): ReadonlyMap<string, SchemaDraft | undefined> {
  const schemas = new Map<string, SchemaDraft | undefined>();
  const table = manifest.table("schemas");
  for (const name of table?.keys() ?? []) {
    const value = table?.value(name);
    const found = document.findCode(value);
    if (isManifestFault(found)) {
      table?.wrong(name, found.problem, found.fix);
      schemas.set(name, undefined);
      continue;
    }
    const schema = toSchema(name, found.code);
    schemas.set(name, schema && { schema, code: found.code });
    if (schema === undefined)
      table?.wrong(
        name,
        `${shown(value)} is ${shown(found.code)}, which is not a schema`,
        'name a Standard Schema (an object with "~standard") or a function',
      );
  }
  return schemas;
}

function readNodes(document: Document, manifest: TableReader): Pick<NetworkDraft, "nodes" | "configs"> {
  const nodes = manifest.named("nodes");
  if (nodes.length === 0 && !isPlainObject(manifest.value("nodes")))
    manifest.missing("nodes", 'add [nodes] with charge = { use = "./charge.node.toml" }');
  else if (
    isPlainObject(manifest.value("nodes")) &&
    Object.keys(manifest.value("nodes") as object).length === 0
  )
    manifest.wrong("nodes", "the network has no nodes", 'add e.g. charge = { use = "./charge.node.toml" }');
  const configs = new Map<string, TableReader>();
  for (const [name, node] of nodes) {
    const config = node.table("config");
    if (config !== undefined) configs.set(name, config);
    const use = node.value("use");
    const used = document.uses.get(name);
    if (use === undefined) node.missing("use", 'add use = "./charge.node.toml"');
    else if (used !== undefined && isManifestFault(used)) node.wrong("use", used.problem, used.fix);
    node.done({
      concurrency: "write it in [deploy]",
      contract: "write it in the file that is used",
      file: "write use",
    });
  }
  return { nodes: nodes.map(([name]) => name), configs };
}

function readEdges(manifest: TableReader, report: Report): readonly EdgeDraft[] {
  const value = manifest.value("edges");
  if (value === undefined) return [];
  if (!Array.isArray(value)) {
    manifest.wrong(
      "edges",
      `edges is ${shown(value)}`,
      "write [[edges]], with two brackets, once for each edge",
    );
    return [];
  }
  return value.flatMap((item, index) => {
    if (!isPlainObject(item)) {
      report(["edges", index], `edges[${index}] is ${shown(item)}`, 'write { from = "a.out", to = "b.in" }');
      return [];
    }
    const edge = readTable(report, item, ["edges", index]);
    const from = readAddress(edge, "from", edge.value("from"), []);
    const to = edge.value("to");
    const ends = Array.isArray(to)
      ? to.map((end, place) => readAddress(edge, "to", end, [place]))
      : [readAddress(edge, "to", to, [])];
    if (Array.isArray(to) && to.length === 0)
      edge.wrong("to", `edges[${index}].to is empty`, 'name a port, e.g. "b.in"');
    edge.done();
    return ends.flatMap((end) => (from === undefined || end === undefined ? [] : [{ from, to: end }]));
  });
}

function readAddress(table: TableReader, key: string, value: unknown, within: Path): PortAddress | undefined {
  if (value === undefined) {
    table.missing(key, `add ${key} = "charge.${key === "from" ? "out" : "in"}"`);
    return undefined;
  }
  const [, node, port] = typeof value === "string" ? (/^([^.]+)\.([^.]+)$/.exec(value) ?? []) : [];
  if (node !== undefined && port !== undefined) return { node, port, path: [...table.path, key, ...within] };
  table.wrong(
    key,
    `${shown(value)} is not a port of a node`,
    'write the node, a dot, and its port, e.g. "charge.in"',
  );
  return undefined;
}

function readExposed(manifest: TableReader): NetworkDraft["exposed"] {
  const table = manifest.table("expose");
  const side = (name: "in" | "out"): readonly ExposedDraft[] => {
    const ports = table?.table(name);
    return (ports?.keys() ?? []).flatMap((key) => {
      if (!isName(key)) ports?.wrong(key, `${shown(key)} is not a name`, NAME_FIX);
      const address = ports && readAddress(ports, key, ports.value(key), []);
      return address === undefined ? [] : [{ name: key, address }];
    });
  };
  const exposed = { in: side("in"), out: side("out") };
  table?.done({ input: "write in", output: "write out" });
  return exposed;
}

function readSupervision(manifest: TableReader): Supervision {
  const table = manifest.table("supervision");
  if (table === undefined) return SUPERVISION;
  // Bloccs has a third strategy. Sources do not depend on each other, so there is no rest to restart.
  if (table.value("strategy") === "rest_for_one")
    table.wrong(
      "strategy",
      'supervision.strategy is "rest_for_one"',
      'write "one-for-one": sources do not depend on each other',
    );
  const strategy =
    table.value("strategy") === "rest_for_one"
      ? undefined
      : table.oneOf("strategy", ["one-for-one", "one-for-all"]);
  const restarts = table.whole("restarts", 0);
  const withinMs = table.duration("within", "5s");
  table.done({
    ...hintsFor("write restarts", ["max_restarts", "intensity"]),
    ...hintsFor('write within = "5s"', ["max_seconds", "period"]),
  });
  return {
    strategy: strategy ?? SUPERVISION.strategy,
    restarts: restarts ?? SUPERVISION.restarts,
    withinMs: withinMs ?? SUPERVISION.withinMs,
  };
}

function readConcurrency(manifest: TableReader): NetworkDraft["concurrency"] {
  const deploy = manifest.table("deploy");
  const table = deploy?.table("concurrency");
  const read = (table?.keys() ?? []).flatMap((node) => {
    const count = table?.whole(node, 1);
    return count === undefined ? [] : [{ node, count, path: ["deploy", "concurrency", node] }];
  });
  deploy?.done({ placement: "leave it out: a network runs in the process that starts it" });
  return read;
}
