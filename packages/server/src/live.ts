/** Recent activity of this server: counts per second, and the last events of single keys. In memory, and bounded. */
import type { GuardEvent } from "nevertwice";

/** What the charts show: how many events of each kind happened in a second. */
export const RATES = [
  "first",
  "replay",
  "alreadyDone",
  "conflict",
  "pending",
  "wait",
  "unknown",
  "failure",
  "unavailable",
] as const;
export type RateName = (typeof RATES)[number];

export interface Second {
  /** Seconds since the epoch. */
  readonly at: number;
  readonly counts: Readonly<Record<RateName, number>>;
  /** Durations of the work that ended in this second, in milliseconds. */
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
  /** An observer for claims of API clients. Their work runs elsewhere, so it does not count as in flight here. */
  observerElsewhere(namespace: string): (event: GuardEvent) => void;
  /** How many runs are in flight on this server: of one namespace, or of all. */
  inFlight(namespace?: string): number;
  /** The last `count` seconds, oldest first, up to the current one: of one namespace, or of all. */
  seconds(count: number, namespace?: string): readonly Second[];
  /** The events of one key that this server observed, oldest first. */
  keyEvents(namespace: string, keyHash: string): readonly SeenEvent[];
}

type KeyEvent = Extract<GuardEvent, { readonly keyHash: string }>;

/** As it was observed: most are dropped before anyone asks for them. */
interface KeptEvent {
  readonly namespace: string;
  readonly at: number;
  readonly event: KeyEvent;
}

const KEPT_SECONDS = 600;
const KEPT_EVENTS = 20_000;
const MAX_DURATIONS = 1_000;
/** The most namespaces with their own counts. The one without events for the longest time is dropped first. */
const MAX_NAMESPACES = 200;

/** A duplicate that was refused because the work is done is not a replay, since it got no outcome. */
function toRateName(event: GuardEvent): RateName | undefined {
  return event.kind === "replayed" && event.refused ? "alreadyDone" : KIND_RATE[event.kind];
}

const KIND_RATE: Partial<Record<GuardEvent["kind"], RateName>> = {
  claimed: "first",
  "taken-over": "first",
  replayed: "replay",
  "replay-not-kept": "alreadyDone",
  "replay-unreadable": "alreadyDone",
  "replay-expired": "alreadyDone",
  conflict: "conflict",
  pending: "pending",
  waited: "wait",
  lapsed: "unknown",
  abandoned: "failure",
  unavailable: "unavailable",
};

export function createLive(now: () => number = Date.now): Live {
  const whole = createSeconds(now);
  /** In the order of their last event. */
  const byNamespace = new Map<string, Seconds>();
  let latest: { readonly namespace: string; readonly own: Seconds } | undefined;
  /** The running attempts of each namespace. A set, because an attempt can be reported as lost and later as ended. */
  const inFlight = new Map<string, Set<string>>();
  const events: KeptEvent[] = [];
  let oldest = 0;

  function keep(namespace: string, event: GuardEvent): void {
    if (!("keyHash" in event)) return;
    const kept = { namespace, at: now(), event: withoutError(event) };
    if (events.length < KEPT_EVENTS) events.push(kept);
    else {
      events[oldest] = kept;
      oldest = (oldest + 1) % KEPT_EVENTS;
    }
  }

  function namespaceSeconds(namespace: string): Seconds {
    if (latest?.namespace === namespace) return latest.own;
    const own = byNamespace.get(namespace) ?? createSeconds(now);
    latest = { namespace, own };
    byNamespace.delete(namespace);
    byNamespace.set(namespace, own);
    const [quietest] = byNamespace.keys();
    if (byNamespace.size > MAX_NAMESPACES) byNamespace.delete(quietest as string);
    return own;
  }

  function count(namespace: string, event: GuardEvent): void {
    whole.count(event);
    namespaceSeconds(namespace).count(event);
    keep(namespace, event);
  }

  function follow(namespace: string, event: GuardEvent): void {
    if (!("fence" in event)) return;
    const running = inFlight.get(namespace) ?? new Set();
    const attempt = `${event.keyHash} ${event.fence}`;
    if (event.kind === "claimed" || event.kind === "taken-over") running.add(attempt);
    if (event.kind === "completed" || event.kind === "abandoned" || isLost(event)) running.delete(attempt);
    if (running.size === 0) inFlight.delete(namespace);
    else inFlight.set(namespace, running);
  }

  return {
    observer: (namespace) => (event) => {
      if (isQuotaEvent(event)) return;
      follow(namespace, event);
      count(namespace, event);
    },
    observerElsewhere: (namespace) => (event) => {
      if (!isQuotaEvent(event)) count(namespace, event);
    },
    inFlight: (namespace) =>
      namespace === undefined
        ? [...inFlight.values()].reduce((sum, running) => sum + running.size, 0)
        : (inFlight.get(namespace)?.size ?? 0),
    seconds: (howMany, namespace) =>
      (namespace === undefined ? whole : (byNamespace.get(namespace) ?? createSeconds(now))).last(howMany),
    keyEvents: (namespace, keyHash) =>
      [...events.slice(oldest), ...events.slice(0, oldest)]
        .filter((kept) => kept.event.keyHash === keyHash && kept.namespace === namespace)
        .map(toSeenEvent),
  };
}

/** Another attempt owns the key, or the store has lost the record, so no completion of this attempt will follow. */
function isLost(event: GuardEvent): boolean {
  return event.kind === "lease-lost" && (event.reason === "overtaken" || event.reason === "forgotten");
}

/** The quota counts in its own records, which are not work of users. */
export function isQuotaEvent(event: GuardEvent): boolean {
  return "operation" in event && event.operation === "nevertwice:quota";
}

interface Seconds {
  count(event: GuardEvent): void;
  last(howMany: number): readonly Second[];
}

interface Bin {
  readonly at: number;
  readonly counts: Record<RateName, number>;
  /** The durations of the current second. For earlier seconds only `ranMs` is stored. */
  durations: number[];
  ranMs: Second["ranMs"] | undefined;
}

function createSeconds(now: () => number): Seconds {
  const bins: Bin[] = [];

  function bin(): Bin {
    const at = Math.floor(now() / 1_000);
    // The clock was set back: what was counted ahead of it is nobody's present, and would keep this second from being shown.
    while ((bins.at(-1)?.at ?? at) > at) bins.pop();
    const last = bins.at(-1);
    if (last?.at === at) return last;
    if (last !== undefined) Object.assign(last, { ranMs: spread(last.durations), durations: [] });
    const made: Bin = { at, counts: emptyCounts(), durations: [], ranMs: undefined };
    bins.push(made);
    if (bins.length > KEPT_SECONDS) bins.shift();
    return made;
  }

  return {
    count(event) {
      const { counts, durations } = bin();
      const rate = toRateName(event);
      if (rate !== undefined) counts[rate]++;
      if (event.kind === "completed" && durations.length < MAX_DURATIONS) durations.push(event.ranMs);
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

function emptyCounts(): Record<RateName, number> {
  return Object.fromEntries(RATES.map((rate) => [rate, 0])) as Record<RateName, number>;
}

function spread(durations: readonly number[]): Second["ranMs"] {
  const sorted = [...durations].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99) };
}

function toSeenEvent({ at, event }: KeptEvent): SeenEvent {
  const { kind, keyHash: _, ...detail } = event;
  return { at, kind, detail };
}

/** The message of an error may contain data that operators must not see here. */
function withoutError(event: KeyEvent): KeyEvent {
  if (!("cause" in event)) return event;
  const { cause: _, ...rest } = event;
  return rest as KeyEvent;
}
