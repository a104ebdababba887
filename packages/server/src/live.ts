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
  /** An observer for guards. */
  readonly observe: (event: GuardEvent) => void;
  /** An observer for claims whose work is done elsewhere: it is not in flight here. */
  readonly observeElsewhere: (event: GuardEvent) => void;
  /** Work that runs here now. */
  inFlight(): number;
  /** The last so many seconds, oldest first; the present one is the last. */
  seconds(count: number): readonly Second[];
  /** What was seen of one key, oldest first. */
  eventsOf(keyHash: string): readonly SeenEvent[];
}

const KEPT_SECONDS = 600;
const KEPT_EVENTS = 20_000;
const MOST_DURATIONS = 1_000;

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

interface Bin {
  at: number;
  counts: Record<Rate, number>;
  durations: number[];
}

export function createLive(now: () => number = Date.now): Live {
  const bins: Bin[] = [];
  const events: { readonly keyHash: string; readonly seen: SeenEvent }[] = [];
  let oldest = 0;
  let inFlight = 0;

  function bin(): Bin {
    const at = Math.floor(now() / 1_000);
    const last = bins.at(-1);
    if (last !== undefined && last.at >= at) return last;
    const made: Bin = { at, counts: emptyCounts(), durations: [] };
    bins.push(made);
    if (bins.length > KEPT_SECONDS) bins.shift();
    return made;
  }

  function keep(keyHash: string, seen: SeenEvent): void {
    if (events.length < KEPT_EVENTS) events.push({ keyHash, seen });
    else {
      events[oldest] = { keyHash, seen };
      oldest = (oldest + 1) % KEPT_EVENTS;
    }
  }

  function count(event: GuardEvent): void {
    const { counts, durations } = bin();
    const rate = RATE_OF[event.kind];
    if (rate !== undefined) counts[rate]++;
    if (event.kind === "completed" && durations.length < MOST_DURATIONS) durations.push(event.ranMs);
    if (!("keyHash" in event)) return;
    const { kind, keyHash, ...detail } = event;
    keep(keyHash, { at: now(), kind, detail: withoutErrors(detail) });
  }

  return {
    observe(event) {
      if (event.kind === "claimed" || event.kind === "taken-over") inFlight++;
      if (event.kind === "completed" || event.kind === "abandoned") inFlight = Math.max(0, inFlight - 1);
      count(event);
    },
    observeElsewhere: count,
    inFlight: () => inFlight,
    seconds(howMany) {
      const end = Math.floor(now() / 1_000);
      const byTime = new Map(bins.map((known) => [known.at, known]));
      return Array.from({ length: howMany }, (_, index) => {
        const at = end - howMany + 1 + index;
        const known = byTime.get(at);
        return {
          at,
          counts: known?.counts ?? emptyCounts(),
          ranMs: spread(known?.durations ?? []),
        };
      });
    },
    eventsOf: (keyHash) =>
      [...events.slice(oldest), ...events.slice(0, oldest)]
        .filter((event) => event.keyHash === keyHash)
        .map(({ seen }) => seen),
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
