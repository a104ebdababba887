/** A network as the API shows it: its nodes and edges, without config, payload rules or code. */
import { compositeKey } from "nevertwice";
import type { Definition, NodeDescription } from "nevertwice/pipeline";
import type { NetworkJson } from "../api/api-json.ts";

/** The most nodes that are shown. The others run all the same. */
const MAX_NODES = 200;

export function shownNodes(definition: Definition): readonly NodeDescription[] {
  return definition.describe().nodes.slice(0, MAX_NODES);
}

export function toNetworkJson(definition: Definition, startedAt: number): NetworkJson {
  const { id, version, nodes, edges, exposed } = definition.describe();
  const shown = shownNodes(definition);
  const names = new Set(shown.map(({ name }) => name));
  const isShown = (port: string) => names.has(port.slice(0, port.lastIndexOf(".")));
  return {
    id,
    version,
    startedAt,
    hiddenNodes: nodes.length - shown.length,
    nodes: shown.map(({ name, kind, doc, in: ports, out, contract, effects, concurrency, batch, join }) => ({
      name,
      kind,
      intent: doc.intent ?? null,
      owner: doc.owner ?? null,
      in: Object.keys(ports),
      out: Object.keys(out),
      buffer: Object.values(ports).reduce((sum, { buffer }) => sum + buffer, 0),
      key: contract.idempotency?.fields ?? null,
      keyScope: contract.idempotency === undefined ? null : compositeKey(id, name).text,
      retries: contract.retry?.max ?? 0,
      timeoutMs: contract.timeoutMs ?? null,
      effects: Object.keys(effects),
      concurrency,
      groups: batch !== undefined ? "batch" : join !== undefined ? "join" : null,
    })),
    edges: edges.filter(({ from, to }) => isShown(from) && isShown(to)),
    exposed: {
      in: Object.fromEntries(Object.entries(exposed.in).filter(([, port]) => isShown(port))),
      out: Object.fromEntries(Object.entries(exposed.out).filter(([, port]) => isShown(port))),
    },
  };
}
