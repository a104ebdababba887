/** Reads a node's manifest, and checks everything that does not depend on the network that uses it. */
import {
  type Batch,
  type Capture,
  type Join,
  KINDS,
  type Kind,
  type NodeModel,
  type Rate,
} from "../model.ts";
import { readContract } from "./contract.ts";
import type { Document } from "./document.ts";
import { readEffects } from "./effects-table.ts";
import { isLintRule, LINT_RULES } from "./lint-rules.ts";
import { checkCombinations } from "./node-combinations.ts";
import { readConfig } from "./node-config.ts";
import type { DraftPort, NodeDraft } from "./node-draft.ts";
import type { Report } from "./problem.ts";
import { hintsFor, readTable, shown, type TableReader } from "./table-reader.ts";

const BUFFER = 100;
const MAX_PENDING = 1_000;
const CAPTURE_BYTES = 1_024;
const SCHEMA_NAME = /^[A-Za-z][\w.-]*@[1-9]\d*$/;
export function readNode(document: Document, report: Report): NodeDraft {
  const manifest = readTable(report, document.table);
  const { id, version, kind, reply } = readHead(manifest);
  const ports = manifest.table("ports");
  const inPorts = readPorts(ports, "in");
  const outPorts = readPorts(ports, "out");
  ports?.done({ input: "write [ports.in]", output: "write [ports.out]" });
  const contract = readContract(document, manifest, kind === "source");
  const batch = readBatch(manifest);
  const join = readJoin(manifest);
  const rate = readRate(manifest);
  const delayMs = readDelay(manifest);
  const capture = readCapture(manifest);
  const lint = readLint(manifest);
  const draft: NodeDraft = {
    document,
    id,
    version,
    kind: kind ?? "transform",
    doc: readDoc(manifest),
    in: inPorts,
    out: outPorts,
    contract,
    effects: readEffects(manifest),
    config: readConfig(manifest),
    lint,
    reply,
    ...(batch && { batch }),
    ...(join && { join }),
    ...(rate && { rate }),
    ...(delayMs !== undefined && { delayMs }),
    ...(capture && { capture }),
  };
  manifest.done({
    retry: "write it in [contract]",
    idempotency: "write it in [contract]",
    timeout: "write it in [contract]",
    observability: "write [capture] for payloads; events are always reported",
    inspect: "write [capture] for payloads",
    network: "a file is a node or a network, not both",
    nodes: "a file is a node or a network, not both",
    reply: "write it in [node]",
    buffer: "write it on the in-port: in = { buffer = 100 }",
    throttle: 'write [rate] with limit and per = "1s"',
    debounce: "write [batch], and let the core keep the last payload",
    window: "write [batch]",
  });
  if (kind !== undefined) checkCombinations(draft, report);
  return draft;
}

function readHead(manifest: TableReader): {
  id: string;
  version: string;
  kind: Kind | undefined;
  reply: boolean;
} {
  const node = manifest.table("node");
  if (node === undefined) {
    if (!manifest.has("node"))
      manifest.missing("node", "add [node] with id, version and kind, or [network] if it is a network");
    return { id: "", version: "", kind: undefined, reply: false };
  }
  const id = node.text("id");
  const version = node.text("version");
  const kind = node.oneOf("kind", KINDS);
  const reply = node.flag("reply") ?? false;
  if (!node.has("id")) node.missing("id", 'add id = "charge"');
  if (!node.has("version")) node.missing("version", 'add version = "1.0.0"');
  if (!node.has("kind")) node.missing("kind", `add kind = "transform", or another of ${KINDS.join(", ")}`);
  node.done({
    type: `write kind, one of ${KINDS.join(", ")}`,
    name: "write id",
    runtime: "leave it out: nodes run in the process that starts the network",
    intent: "write it in [doc]",
    owner: "write it in [doc]",
  });
  return { id: id ?? "", version: version ?? "", kind, reply };
}

function readDoc(manifest: TableReader): NodeModel["doc"] {
  const doc = manifest.table("doc");
  const intent = doc?.text("intent");
  const owner = doc?.text("owner");
  doc?.done();
  return { ...(intent !== undefined && { intent }), ...(owner !== undefined && { owner }) };
}

function readPorts(ports: TableReader | undefined, side: "in" | "out"): ReadonlyMap<string, DraftPort> {
  const read = (ports?.named(side) ?? []).map(([name, port]) => {
    const schema = port.text("schema");
    if (schema !== undefined && !SCHEMA_NAME.test(schema))
      port.wrong(
        "schema",
        `${shown(schema)} is a schema name without a version`,
        'write e.g. schema = "Order@1"',
      );
    const buffer = side === "in" ? port.whole("buffer", 1) : undefined;
    port.done(side === "out" ? { buffer: "write it on the in-port that this port leads to" } : {});
    return [name, { schema, buffer: buffer ?? BUFFER }] as const;
  });
  return new Map(read);
}

function readBatch(manifest: TableReader): Batch | undefined {
  const table = manifest.table("batch");
  if (table === undefined) return undefined;
  const size = table.whole("size", 1);
  const withinMs = table.duration("within", "1s");
  if (!table.has("size")) table.missing("size", "add size = 100");
  if (!table.has("within"))
    table.missing("within", 'add within = "1s", after which an incomplete batch is processed');
  table.done(hintsFor('write within = "1s"', ["timeout", "timeout_ms", "interval_ms", "window_ms"]));
  return { size: size ?? 1, withinMs: withinMs ?? 1 };
}

function readJoin(manifest: TableReader): Join | undefined {
  const table = manifest.table("join");
  if (table === undefined) return undefined;
  const by = table.text("by");
  const withinMs = table.duration("within", "30s");
  const deadLetter = table.text("dead_letter");
  const maxPending = table.whole("max_pending", 1) ?? MAX_PENDING;
  if (!table.has("by"))
    table.missing("by", 'add by = "order_id", the field that is equal in matching messages');
  if (!table.has("within"))
    table.missing("within", 'add within = "30s", how long the first message waits for the others');
  table.done({
    ...hintsFor("write by", ["on", "key"]),
    ...hintsFor('write within = "30s"', ["timeout", "timeout_ms"]),
    ...hintsFor("write dead_letter", ["deadletter", "dead"]),
  });
  return {
    by: by ?? "",
    withinMs: withinMs ?? 1,
    maxPending,
    ...(deadLetter !== undefined && { deadLetter }),
  };
}

function readRate(manifest: TableReader): Rate | undefined {
  const table = manifest.table("rate");
  if (table === undefined) return undefined;
  const limit = table.whole("limit", 1);
  const perMs = table.duration("per", "1s");
  if (!table.has("limit")) table.missing("limit", "add limit = 10");
  if (!table.has("per")) table.missing("per", 'add per = "1s"');
  table.done({
    ...hintsFor("write limit", ["allowed", "max", "messages"]),
    ...hintsFor('write per = "1s"', ["interval_ms", "interval", "period_ms"]),
  });
  return { limit: limit ?? 1, perMs: perMs ?? 1 };
}

function readDelay(manifest: TableReader): number | undefined {
  const table = manifest.table("delay");
  if (table === undefined) return undefined;
  const byMs = table.duration("by", "5s");
  if (!table.has("by")) table.missing("by", 'add by = "5s"');
  table.done(hintsFor('write by = "5s"', ["ms", "delay_ms", "for"]));
  return byMs;
}

function readCapture(manifest: TableReader): Capture | undefined {
  const table = manifest.table("capture");
  if (table === undefined) return undefined;
  const maxBytes = table.whole("max_bytes", 1) ?? CAPTURE_BYTES;
  const redact = table.texts("redact", '["card"]') ?? [];
  table.done({ enabled: "leave it out: [capture] itself turns it on" });
  return { maxBytes, redact };
}

/** The findings of `pipeline lint` that this node's author has looked at and accepts. */
function readLint(manifest: TableReader): readonly string[] {
  const table = manifest.table("lint");
  if (table === undefined) return [];
  const allow = table.texts("allow", '["direct-effect"]') ?? [];
  for (const name of allow.filter((rule) => !isLintRule(rule)))
    table.wrong("allow", `${shown(name)} is not a rule of lint`, `write one of ${LINT_RULES.join(", ")}`);
  table.done(hintsFor("write allow", ["exceptions", "ignore", "disable", "skip"]));
  return allow;
}
