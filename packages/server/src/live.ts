/** What this server saw of late: rates by the second, and the last events of single keys. Bounded, and lost with it. */
import type { GuardEvent } from "nevertwice";

/** What a chart shows: how many of each happened in one second. */
export const RATES = [
  "first",
  "replay",
  "conflict",
  "pending",
  "wait",
  "unknown",
  "failure",
  "unavailable",
] as const;
export type Rate = (typeof RATES)[number];

export interface Second {
  /** Seconds since the epoch. */
  readonly at: number;
  readonly counts: Readonly<Record<Rate, number>>;
  /** Of the work that ended in it, in milliseconds. */
  readonly ranMs: { readonly count: number; readonly p50: number; readonly p99: number };
}

export interface SeenEvent {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly kind: GuardEvent["kind"];
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface Live {
  /** An observer for the guards of a namespace. */
  observer(namespace: string): (event: GuardEvent) => void;
  /** An observer for claims whose work is done elsewhere: it is not in flight here. */
  observerElsewhere(namespace: string): (event: GuardEvent) => void;
  /** Work that runs here now: of one namespace, or of all. */
  inFlight(namespace?: string): number;
  /** The last so many seconds, oldest first; the present one is the last. Of one namespace, or of all. */
  seconds(count: number, namespace?: string): readonly Second[];
  /** What was seen of one key, oldest first. */
  eventsOf(namespace: string, keyHash: string): readonly SeenEvent[];
}

const KEPT_SECONDS = 600;
const KEPT_EVENTS = 20_000;
const MOST_DURATIONS = 1_000;
/** Namespaces whose seconds are kept; those of the one that was quiet for longest are dropped first. */
const MOST_NAMESPACES = 200;

const RATE_OF: Partial<Record<GuardEvent["kind"], Rate>> = {
  claimed: "first",
  "taken-over": "first",
  replayed: "replay",
  conflict: "conflict",
  pending: "pending",
  waited: "wait",
  lapsed: "unknown",
  abandoned: "failure",
  unavailable: "unavailable",
};

export function createLive(now: () => number = Date.now): Live {
  const whole = createSeconds(now);
  /** In the order in which they were last heard of. */
  const byNamespace = new Map<string, Seconds>();
  const inFlight = new Map<string, number>();
  const events: { readonly namespace: string; readonly keyHash: string; readonly seen: SeenEvent }[] = [];
  let oldest = 0;

  function keep(namespace: string, event: GuardEvent): void {
    if (!("keyHash" in event)) return;
    const { kind, keyHash, ...detail } = event;
    const kept = { namespace, keyHash, seen: { at: now(), kind, detail: withoutErrors(detail) } };
    if (events.length < KEPT_EVENTS) events.push(kept);
    else {
      events[oldest] = kept;
      oldest = (oldest + 1) % KEPT_EVENTS;
    }
  }

  function secondsOf(namespace: string): Seconds {
    const own = byNamespace.get(namespace) ?? createSeconds(now);
    byNamespace.delete(namespace);
    byNamespace.set(namespace, own);
    const [quietest] = byNamespace.keys();
    if (byNamespace.size > MOST_NAMESPACES) byNamespace.delete(quietest as string);
    return own;
  }

  function count(namespace: string, event: GuardEvent): void {
    whole.count(event);
    secondsOf(namespace).count(event);
    keep(namespace, event);
  }

  function move(namespace: string, by: number): void {
    const running = Math.max(0, (inFlight.get(namespace) ?? 0) + by);
    if (running === 0) inFlight.delete(namespace);
    else inFlight.set(namespace, running);
  }

  return {
    observer: (namespace) => (event) => {
      if (event.kind === "claimed" || event.kind === "taken-over") move(namespace, 1);
      if (event.kind === "completed" || event.kind === "abandoned") move(namespace, -1);
      count(namespace, event);
    },
    observerElsewhere: (namespace) => (event) => count(namespace, event),
    inFlight: (namespace) =>
      namespace === undefined
        ? [...inFlight.values()].reduce((sum, running) => sum + running, 0)
        : (inFlight.get(namespace) ?? 0),
    seconds: (howMany, namespace) =>
      (namespace === undefined ? whole : (byNamespace.get(namespace) ?? createSeconds(now))).last(howMany),
    eventsOf: (namespace, keyHash) =>
      [...events.slice(oldest), ...events.slice(0, oldest)]
        .filter((event) => event.keyHash === keyHash && event.namespace === namespace)
        .map(({ seen }) => seen),
  };
}

interface Seconds {
  count(event: GuardEvent): void;
  last(howMany: number): readonly Second[];
}

interface Bin {
  readonly at: number;
  readonly counts: Record<Rate, number>;
  /** Each of the present second; only their spread is kept of those before. */
  durations: number[];
  ranMs: Second["ranMs"] | undefined;
}

function createSeconds(now: () => number): Seconds {
  const bins: Bin[] = [];

  function bin(): Bin {
    const at = Math.floor(now() / 1_000);
    const last = bins.at(-1);
    if (last !== undefined && last.at >= at) return last;
    if (last !== undefined) Object.assign(last, { ranMs: spread(last.durations), durations: [] });
    const made: Bin = { at, counts: emptyCounts(), durations: [], ranMs: undefined };
    bins.push(made);
    if (bins.length > KEPT_SECONDS) bins.shift();
    return made;
  }

  return {
    count(event) {
      const { counts, durations } = bin();
      const rate = RATE_OF[event.kind];
      if (rate !== undefined) counts[rate]++;
      if (event.kind === "completed" && durations.length < MOST_DURATIONS) durations.push(event.ranMs);
    },
    last(howMany) {
      const end = Math.floor(now() / 1_000);
      const byTime = new Map(bins.map((known) => [known.at, known]));
      return Array.from({ length: howMany }, (_, index) => {
        const at = end - howMany + 1 + index;
        const { counts = emptyCounts(), ranMs, durations = [] } = byTime.get(at) ?? {};
        return { at, counts, ranMs: ranMs ?? spread(durations) };
      });
    },
  };
}

function emptyCounts(): Record<Rate, number> {
  return Object.fromEntries(RATES.map((rate) => [rate, 0])) as Record<Rate, number>;
}

function spread(durations: readonly number[]): Second["ranMs"] {
  const sorted = [...durations].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99) };
}

/** An error's message may hold what nobody should read here. */
function withoutErrors(detail: Record<string, unknown>): Record<string, unknown> {
  const { cause: _, ...rest } = detail;
  return rest;
}
