/** Reads a node's manifest, and checks everything that does not depend on the network that uses it. */
import {
  AXES,
  type Axis,
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
import { checkCombinations } from "./node-combinations.ts";
import type { DraftPort, NodeDraft } from "./node-draft.ts";
import type { Report } from "./problem.ts";
import { readTable, shown, type TableReader } from "./table-reader.ts";

const BUFFER = 100;
const MAX_PENDING = 1_000;
const CAPTURE_BYTES = 1_024;
const SCHEMA_NAME = /^[A-Za-z][\w.-]*@[1-9]\d*$/;
/** A host of a URL, without scheme, port or path. */
const HOST = /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)*[a-z\d](?:[a-z\d-]*[a-z\d])?$/i;

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
    network: "a file is a node or a network, not both",
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
  node.done({ type: `write kind, one of ${KINDS.join(", ")}`, name: "write id" });
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

function readEffects(manifest: TableReader): NodeModel["effects"] {
  const table = manifest.table("effects");
  const effects = new Map<Axis, { readonly allow: readonly string[] }>();
  for (const axis of AXES) {
    if (table === undefined || !table.has(axis)) continue;
    const allow = axis === "http" || axis === "db" ? readAllowed(table, axis) : readGranted(table, axis);
    if (allow !== undefined) effects.set(axis, { allow });
  }
  table?.done();
  return effects;
}

/** `true` grants the whole axis. The model represents that as an empty list. */
function readGranted(table: TableReader, axis: Axis): readonly string[] | undefined {
  if (table.value(axis) === true) return [];
  table.wrong(
    axis,
    `effects.${axis} is ${shown(table.value(axis))}`,
    `write ${axis} = true, or leave it out to deny it`,
  );
  return undefined;
}

function readAllowed(table: TableReader, axis: "http" | "db"): readonly string[] | undefined {
  const value = table.value(axis);
  if (typeof value !== "object") return readGranted(table, axis);
  const inner = table.table(axis);
  if (inner === undefined) return undefined;
  const example = axis === "http" ? '["api.example"]' : '["orders"]';
  const allow = inner.texts("allow", example);
  if (!inner.has("allow"))
    inner.missing("allow", `add allow = ${example}, or write ${axis} = true for all of them`);
  inner.done(axis === "http" ? { hosts: "write allow" } : { tables: "write allow" });
  const odd = axis === "http" ? allow?.find((host) => !HOST.test(host)) : undefined;
  if (odd !== undefined)
    inner.wrong(
      "allow",
      `${shown(odd)} is not a host`,
      'write the host alone, without scheme, port or path: "api.example"',
    );
  return allow;
}

function readBatch(manifest: TableReader): Batch | undefined {
  const table = manifest.table("batch");
  if (table === undefined) return undefined;
  const size = table.whole("size", 1);
  const withinMs = table.duration("within", "1s");
  if (!table.has("size")) table.missing("size", "add size = 100");
  if (!table.has("within"))
    table.missing("within", 'add within = "1s", after which an incomplete batch is processed');
  table.done({ timeout: 'write within = "1s"', timeout_ms: 'write within = "1s"' });
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
  table.done({ on: "write by", key: "write by", timeout: 'write within = "30s"' });
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
  table.done();
  return { limit: limit ?? 1, perMs: perMs ?? 1 };
}

function readDelay(manifest: TableReader): number | undefined {
  const table = manifest.table("delay");
  if (table === undefined) return undefined;
  const byMs = table.duration("by", "5s");
  if (!table.has("by")) table.missing("by", 'add by = "5s"');
  table.done();
  return byMs;
}

function readCapture(manifest: TableReader): Capture | undefined {
  const table = manifest.table("capture");
  if (table === undefined) return undefined;
  const maxBytes = table.whole("max_bytes", 1) ?? CAPTURE_BYTES;
  const redact = table.texts("redact", '["card"]') ?? [];
  table.done();
  return { maxBytes, redact };
}
