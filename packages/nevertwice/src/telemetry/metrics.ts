/** Every metric, and the events that each one counts. */
import { type Attributes, type Counter, type Histogram, type Meter, ValueType } from "@opentelemetry/api";
import type { GuardEvent } from "../core/observer.ts";
import type { CallEnding } from "./call-ending.ts";
import type { Failsafe } from "./failsafe.ts";

/** Name, unit and description. A metric in seconds is a histogram; every other one is a counter. */
const METRICS = {
  "nevertwice.claims": ["{claim}", "What callers found when they claimed their key."],
  "nevertwice.takeovers": ["{takeover}", "Attempts that followed one that failed or went silent."],
  "nevertwice.lapses": ["{claim}", "Claims that met a lapsed record, and took it over or were refused."],
  "nevertwice.renewals": ["{renewal}", "Renewed leases."],
  "nevertwice.waits": ["{wait}", "Duplicates that waited for the attempt under way."],
  "nevertwice.refusals": ["{call}", "Calls that got neither a value nor an error of the work."],
  "nevertwice.unguarded": ["{run}", "Runs without a claim, because the store did not answer."],
  "nevertwice.unavailable": ["{failure}", "Times that the store did not answer."],
  "nevertwice.lease.losses": ["{loss}", "Claims lost before their outcome was recorded."],
  "nevertwice.abandons": ["{claim}", "Claims given up because the work threw."],
  "nevertwice.possible_duplicates": ["{run}", "Unguarded runs whose key was found used afterwards."],
  "nevertwice.not_kept": ["{outcome}", "Outcomes that could not be kept, so that no replay has them."],
  "nevertwice.checks": ["{check}", "Checks whether a key is done, by who was asked and what the answer was."],
  "nevertwice.dead_letters_lost": ["{entry}", "Dead letters that their sink did not take."],
  "nevertwice.purged": ["{record}", "Records removed because they were past their time."],
  "nevertwice.call.duration": ["s", "From a call's claim to its answer, waiting included."],
  "nevertwice.work.duration": ["s", "From the claim to the end of work whose outcome was recorded."],
  "nevertwice.wait.duration": ["s", "How long duplicates waited for the attempt under way."],
} as const;

type Metric = keyof typeof METRICS;

/** From a replay on the memory store to the default of `maxRunMs`. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900];

export type Measurement = readonly [metric: Metric, value: number, attributes: Attributes];

/** Returns a function that never throws. */
export function createRecorder(
  meter: Pick<Meter, "createCounter" | "createHistogram">,
  failsafe: Failsafe,
): (measurement: Measurement) => void {
  const instruments = new Map<string, Counter | Histogram | undefined>();
  const advice = { explicitBucketBoundaries: BUCKETS };
  for (const [metric, [unit, description]] of Object.entries(METRICS)) {
    const instrument = failsafe(() =>
      unit === "s"
        ? meter.createHistogram(metric, { unit, description, advice })
        : meter.createCounter(metric, { unit, description, valueType: ValueType.INT }),
    );
    instruments.set(metric, instrument);
  }
  return ([metric, value, attributes]) => {
    const instrument = instruments.get(metric);
    if (instrument === undefined) return;
    failsafe(() =>
      "add" in instrument ? instrument.add(value, attributes) : instrument.record(value, attributes),
    );
  };
}

/** `operation` is the attributes that all metrics but `nevertwice.purged` have. */
export function measureEvent(event: GuardEvent, operation: Attributes): readonly Measurement[] {
  const one = (metric: Metric, attributes: Attributes = {}): Measurement => [
    metric,
    1,
    { ...operation, ...attributes },
  ];
  const claim = (answer: string) => one("nevertwice.claims", { "nevertwice.answer": answer });
  const takeover = (cause: string) => one("nevertwice.takeovers", { "nevertwice.cause": cause });
  switch (event.kind) {
    case "claimed":
      return event.number > 1 ? [claim("new"), takeover("released")] : [claim("new")];
    case "taken-over":
      return [claim("taken-over"), takeover("lapsed")];
    case "replayed":
      return [claim(event.refused ? "already-done" : "replayed")];
    case "replay-not-kept":
    case "replay-unreadable":
    case "replay-expired":
      return [claim(event.kind.slice("replay-".length))];
    case "pending":
    case "conflict":
      return [claim(event.kind)];
    case "unavailable": {
      const failure = one("nevertwice.unavailable", { "nevertwice.during": event.during });
      return event.during === "claim" ? [claim("unavailable"), failure] : [failure];
    }
    case "waited":
      return [one("nevertwice.waits"), ["nevertwice.wait.duration", event.waitedMs / 1_000, operation]];
    case "completed":
      return [["nevertwice.work.duration", event.ranMs / 1_000, operation]];
    case "abandoned":
      return [one("nevertwice.abandons", { "nevertwice.as": event.as })];
    case "renewed":
      return [one("nevertwice.renewals")];
    case "lapsed":
      return [one("nevertwice.lapses")];
    case "lease-lost":
      return [one("nevertwice.lease.losses", { "nevertwice.reason": event.reason })];
    case "not-kept":
      return [one("nevertwice.not_kept")];
    case "proceeded":
      return [one("nevertwice.unguarded")];
    case "possible-duplicate":
      return [one("nevertwice.possible_duplicates")];
    case "checked":
      return [
        one("nevertwice.checks", {
          "nevertwice.by": event.by,
          "nevertwice.answer": event.isSeen ? "seen" : "not-seen",
        }),
      ];
    case "dead-letter-lost":
      return [one("nevertwice.dead_letters_lost")];
    case "purged":
      return [["nevertwice.purged", event.removed, {}]];
    default:
      return [];
  }
}

export function measureCall(
  ending: CallEnding,
  seconds: number,
  operation: Attributes,
): readonly Measurement[] {
  const { status, errorType, isFailure } = ending;
  const plain = { ...operation, "nevertwice.status": status };
  const failed = errorType === undefined ? plain : { ...plain, "error.type": errorType };
  const measured: Measurement[] = [["nevertwice.call.duration", seconds, isFailure ? failed : plain]];
  // Not by the event `lapsed`, which is also sent before a takeover.
  if (status === "unknown")
    measured.push(["nevertwice.claims", 1, { ...operation, "nevertwice.answer": status }]);
  if (errorType !== undefined && status !== "failed") measured.push(["nevertwice.refusals", 1, failed]);
  return measured;
}
