/** How many keys of a namespace wait for a decision, for the figures: read at most every two seconds, however many watch. */
import type { Context } from "../context.ts";
import type { UndecidedJson } from "./api-json.ts";
import type { JsonSchema } from "./route.ts";

const FRESH_MS = 2_000;

export const UNDECIDED_SCHEMA: JsonSchema = {
  type: ["object", "null"],
  description:
    "The keys of the caller's namespace that wait for a decision; null while the store does not answer, and if it cannot count them.",
  required: ["count", "isComplete", "oldestLapsedAt"],
  properties: {
    count: { type: "integer" },
    isComplete: {
      type: "boolean",
      description: "false: there may be more than were counted, and an older one.",
    },
    oldestLapsedAt: {
      type: ["integer", "null"],
      description: "When the oldest of them lapsed, in milliseconds since the epoch, by the store's clock.",
    },
  },
};

interface Known {
  readonly value: Promise<UndecidedJson | null>;
  readonly until: number;
}

/** Resolves with null if the store does not answer. `now` is a monotonic clock in milliseconds. */
export function createUndecided(
  context: Pick<Context, "guard">,
  now: () => number = () => performance.now(),
): (namespace: string) => Promise<UndecidedJson | null> {
  const known = new Map<string, Known>();
  return (namespace) => {
    const found = known.get(namespace);
    if (found !== undefined && found.until > now()) return found.value;
    for (const [name, { until }] of known) if (until <= now()) known.delete(name);
    const value = countUndecided(context, namespace);
    known.set(namespace, { value, until: now() + FRESH_MS });
    return value;
  };
}

async function countUndecided(
  { guard }: Pick<Context, "guard">,
  namespace: string,
): Promise<UndecidedJson | null> {
  try {
    const report = await guard(namespace).undecided();
    if (report === undefined) return null;
    const { count, isComplete, oldestLapsedAt } = report;
    return {
      count,
      isComplete,
      oldestLapsedAt: oldestLapsedAt === undefined ? null : Math.round(oldestLapsedAt),
    };
  } catch {
    // The figures go on without it. The list of keys reports what is wrong with the store.
    return null;
  }
}
