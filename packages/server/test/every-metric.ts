/** Everything that a server can count, as `/metrics` and OpenTelemetry show it, and as docs/metrics.md lists it. */
import { readFile } from "node:fs/promises";
import { metrics as otelMetrics } from "@opentelemetry/api";
import { createGuard, type GuardEvent } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { createMetricsSdk } from "../../nevertwice/test/telemetry/sdk.ts";
import { createGauges, observeGauges } from "../src/gauges.ts";
import { createLive } from "../src/live.ts";
import { createMetrics } from "../src/metrics.ts";

export interface Row {
  readonly name: string;
  readonly inMetrics: string;
  readonly type: string;
  readonly attributes: readonly string[];
}

export async function documented(): Promise<readonly Row[]> {
  const text = await readFile(new URL("../../../docs/metrics.md", import.meta.url), "utf8");
  const [, section = ""] = /^## Metrics$(.*?)^## /ms.exec(text) ?? [];
  return section.split("\n").flatMap((line) => {
    const [, name, inMetrics, type = "", attributes = ""] =
      /^\| `([\w.]+)` \| `(\w+)` \| (\w+) \| ([^|]*)\|/.exec(line) ?? [];
    if (name === undefined || inMetrics === undefined) return [];
    return [
      { name, inMetrics, type, attributes: [...attributes.matchAll(/`([^`]+)`/g)].map(([, one]) => one) },
    ];
  }) as readonly Row[];
}

const SUBJECT = { operation: "charge", keyHash: "k" };
const CLAIM = { ...SUBJECT, fence: 1 };

/** One event of each kind. */
const EVENTS: readonly GuardEvent[] = [
  { ...CLAIM, kind: "claimed", number: 2 },
  { ...SUBJECT, kind: "replayed", refused: false },
  { ...SUBJECT, kind: "replay-not-kept" },
  { ...SUBJECT, kind: "replay-unreadable" },
  { ...SUBJECT, kind: "replay-expired" },
  { ...SUBJECT, kind: "pending", leaseLeftMs: 1 },
  { ...SUBJECT, kind: "waited", waitedMs: 1 },
  { ...SUBJECT, kind: "conflict", state: "completed" },
  { ...SUBJECT, kind: "lapsed" },
  { ...CLAIM, kind: "taken-over", number: 2 },
  { ...CLAIM, kind: "renewed", leaseMs: 1 },
  { ...CLAIM, kind: "lease-lost", reason: "overtaken" },
  { ...CLAIM, kind: "completed", ranMs: 1 },
  { ...CLAIM, kind: "not-kept", detail: "too large" },
  { ...CLAIM, kind: "abandoned", as: "released" },
  { ...SUBJECT, kind: "unavailable", during: "claim", cause: new Error("down") },
  { ...SUBJECT, kind: "proceeded" },
  { ...SUBJECT, kind: "possible-duplicate", reason: "claimed" },
  { kind: "purged", removed: 1 },
  { ...SUBJECT, kind: "checked", by: "store", isSeen: true },
  { ...SUBJECT, kind: "dead-letter-lost", id: "1", cause: new Error("full") },
];

const FIGURES = {
  ...{ undelivered: 1, waiting: 1, due: 1, delivering: 0, behind: 0, parked: 0 },
  ...{ oldestMs: 1, topics: [], countedUpTo: 10_000 },
};

/** The API of OpenTelemetry must be disabled afterwards. */
export async function everything() {
  const sdk = createMetricsSdk();
  otelMetrics.setGlobalMeterProvider(sdk.meterProvider);
  const metrics = createMetrics();
  const observe = metrics.observer("shop");
  for (const event of EVENTS) observe(event);
  await observe.around?.(SUBJECT, async () => ({ status: "unavailable" }));
  metrics.request({ namespace: "shop", route: "/v1/keys", method: "GET", status: 200, seconds: 0.1 });
  const report = async () => ({ count: 2, isComplete: true, oldestSince: 0 });
  const store = { ...memoryStore(), overdue: report };
  const guard = (namespace: string) => createGuard({ store, namespace });
  const outbox = () => ({ figures: async () => FIGURES }) as never;
  const context = { live: createLive(), store, guard, outbox };
  const gauges = createGauges(context, () => ["shop"]);
  const stop = observeGauges(gauges);
  const text = metrics.text(undefined, await gauges.read(undefined));
  const all = await sdk.all();
  stop();
  return { text, all };
}
