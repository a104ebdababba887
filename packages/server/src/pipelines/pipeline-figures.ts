/** What happened in the nodes of one network in the last minute, from its events. Bounded: a few numbers for each second. */
import type { NetworkModel, PipelineEvent } from "nevertwice/pipeline";

const SECONDS = 60;
/** The durations that percentiles are taken from: the last ones of the minute. */
const MAX_DURATIONS = 500;

export const NODE_COUNTS = ["completed", "failed", "retried", "duplicate", "dropped"] as const;
export type NodeCount = (typeof NODE_COUNTS)[number];

/** Of the last minute. */
export interface NodeMinute {
  readonly counts: Readonly<Record<NodeCount, number>>;
  /** Messages for each second of the last ten. */
  readonly perSecond: number;
  /** How long completed messages took, with their retries, in milliseconds. */
  readonly ranMs: { readonly count: number; readonly p50: number; readonly p95: number };
  /** How often it emitted by each out-port. */
  readonly ports: Readonly<Record<string, number>>;
}

export interface PipelineFigures {
  observe(event: PipelineEvent): void;
  minute(node: string): NodeMinute;
}

const RECENT_SECONDS = 10;

const KIND_COUNT: Partial<Record<PipelineEvent["kind"], NodeCount>> = {
  completed: "completed",
  failed: "failed",
  later: "failed",
  "dispatch-failed": "failed",
  retrying: "retried",
  duplicate: "duplicate",
  recovered: "duplicate",
  dropped: "dropped",
};

interface NodeRecord {
  readonly counts: Readonly<Record<NodeCount, Counter>>;
  readonly ports: ReadonlyMap<string, Counter>;
  durations: { readonly at: number; readonly ms: number }[];
}

export function createPipelineFigures(model: NetworkModel, now: () => number): PipelineFigures {
  const second = () => Math.floor(now() / 1_000);
  const nodes = new Map(
    [...model.nodes.values()].map(({ name, out }): [string, NodeRecord] => [
      name,
      {
        counts: Object.fromEntries(NODE_COUNTS.map((count) => [count, createCounter()])) as Record<
          NodeCount,
          Counter
        >,
        ports: new Map([...out.keys()].map((port) => [port, createCounter()])),
        durations: [],
      },
    ]),
  );

  return {
    observe(event) {
      const record = "node" in event && event.node !== undefined ? nodes.get(event.node) : undefined;
      if (record === undefined) return;
      const at = second();
      const count = KIND_COUNT[event.kind];
      if (count !== undefined) record.counts[count].add(at);
      if (event.kind === "dead-lettered") record.ports.get(event.port)?.add(at);
      if (event.kind !== "completed") return;
      for (const port of event.ports) record.ports.get(port)?.add(at);
      record.durations.push({ at, ms: event.ranMs });
      if (record.durations.length >= 2 * MAX_DURATIONS)
        record.durations = record.durations.slice(-MAX_DURATIONS);
    },
    minute(node) {
      const at = second();
      const { counts, ports, durations } = nodes.get(node) as NodeRecord;
      const sorted = durations
        .slice(-MAX_DURATIONS)
        .filter((one) => at - one.at < SECONDS)
        .map(({ ms }) => ms)
        .sort((a, b) => a - b);
      const share = (part: number) =>
        sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
      return {
        counts: Object.fromEntries(
          NODE_COUNTS.map((name) => [name, counts[name].sum(at, SECONDS)]),
        ) as NodeMinute["counts"],
        perSecond: counts.completed.sum(at - 1, RECENT_SECONDS) / RECENT_SECONDS,
        ranMs: { count: sorted.length, p50: share(0.5), p95: share(0.95) },
        ports: Object.fromEntries([...ports].map(([port, counter]) => [port, counter.sum(at, SECONDS)])),
      };
    },
  };
}

interface Counter {
  add(second: number): void;
  /** Of the last `seconds` up to and including `second`. */
  sum(second: number, seconds: number): number;
}

/** A ring of one number for each second. */
function createCounter(): Counter {
  const counts = new Float64Array(SECONDS);
  const seconds = new Float64Array(SECONDS);
  return {
    add(second) {
      const place = second % SECONDS;
      if (seconds[place] !== second) counts[place] = 0;
      seconds[place] = second;
      counts[place] = (counts[place] as number) + 1;
    },
    sum(second, howMany) {
      let total = 0;
      for (let at = second - howMany + 1; at <= second; at++)
        if (seconds[at % SECONDS] === at) total += counts[at % SECONDS] as number;
      return total;
    },
  };
}
