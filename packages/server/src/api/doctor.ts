/** The findings of the doctor. They need several queries, so they are cached for a while and shared by all callers. */
import { isNevertwiceError, NevertwiceError, type Store } from "nevertwice";
import { diagnose } from "nevertwice/doctor";
import type { DiagnosisJson } from "./api-json.ts";
import type { JsonSchema } from "./route.ts";

const FRESH_MS = 10_000;

const FINDING: JsonSchema = {
  type: "object",
  required: ["survives", "because"],
  properties: {
    survives: { enum: ["yes", "no", "unknown"] },
    because: { type: "string" },
    raise: { type: "string", description: "The setting to change so that a claim survives this fault." },
  },
};

const FAULTS = ["our-crash", "store-crash", "power-loss", "failover"];

export const DIAGNOSIS_SCHEMA: JsonSchema = {
  type: "object",
  required: ["title", "rung", "survives", "notes"],
  properties: {
    title: { type: "string", description: "The store and its relevant settings." },
    rung: {
      enum: [...FAULTS, null],
      description:
        "The most severe fault that an acknowledged claim survives, together with all milder ones.",
    },
    survives: {
      type: "object",
      required: FAULTS,
      properties: Object.fromEntries(FAULTS.map((fault) => [fault, FINDING])),
    },
    refused: { type: "string", description: "Why the store must not be used with its current settings." },
    notes: { type: "array", items: { type: "string" } },
  },
};

/** `now` is a monotonic clock: if the wall clock were set back, an old diagnosis would be served for hours. */
export function createDoctor(
  store: Store,
  now: () => number = () => performance.now(),
): () => Promise<DiagnosisJson> {
  let known: { readonly diagnosis: Promise<DiagnosisJson>; readonly until: number } | undefined;
  return () => {
    if (known === undefined || known.until <= now()) {
      const diagnosis = diagnoseStore(store);
      known = { diagnosis, until: now() + FRESH_MS };
      // A failure is not cached: the next caller tries again.
      diagnosis.catch(() => {
        known = undefined;
      });
    }
    return known.diagnosis;
  };
}

async function diagnoseStore(store: Store): Promise<DiagnosisJson> {
  try {
    const { title, rung = null, survives, refused, notes } = await diagnose(store);
    return { title, rung, survives, notes, ...(refused !== undefined && { refused }) };
  } catch (error) {
    if (isNevertwiceError(error)) throw error;
    throw unreadableSettings(error);
  }
}

function unreadableSettings(cause: unknown): NevertwiceError {
  return new NevertwiceError("unavailable", "the store did not return its settings.", { cause });
}
