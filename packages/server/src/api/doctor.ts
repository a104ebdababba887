/** The doctor's findings, which cost the store some questions: asked once in a while, however many want to know. */
import { isNevertwiceError, NevertwiceError, type Store } from "nevertwice";
import { type Diagnosis, diagnose } from "nevertwice/doctor";
import type { JsonSchema } from "./route.ts";

const FRESH_MS = 10_000;

const FINDING: JsonSchema = {
  type: "object",
  required: ["survives", "because"],
  properties: {
    survives: { enum: ["yes", "no", "unknown"] },
    because: { type: "string" },
    raise: { type: "string", description: "What to set for a better answer." },
  },
};

const FAULTS = ["our-crash", "store-crash", "power-loss", "failover"];

export const DIAGNOSIS_SCHEMA: JsonSchema = {
  type: "object",
  required: ["title", "rung", "survives", "notes"],
  properties: {
    title: { type: "string", description: "The store, and the settings that matter." },
    rung: {
      enum: [...FAULTS, null],
      description: "The hardest fault that an acknowledged claim survives, with all before it.",
    },
    survives: {
      type: "object",
      required: FAULTS,
      properties: Object.fromEntries(FAULTS.map((fault) => [fault, FINDING])),
    },
    refused: { type: "string", description: "Why the store must not keep claims as it is set up." },
    notes: { type: "array", items: { type: "string" } },
  },
};

export type DiagnosisJson = Omit<Diagnosis, "rung" | "toString"> & {
  readonly rung: Diagnosis["rung"] | null;
};

export function createDoctor(store: Store, now: () => number = Date.now): () => Promise<DiagnosisJson> {
  let known: { readonly diagnosis: Promise<DiagnosisJson>; readonly until: number } | undefined;
  return () => {
    if (known === undefined || known.until <= now()) {
      const diagnosis = ask(store);
      known = { diagnosis, until: now() + FRESH_MS };
      // What failed is not kept: the next one asks again.
      diagnosis.catch(() => {
        known = undefined;
      });
    }
    return known.diagnosis;
  };
}

async function ask(store: Store): Promise<DiagnosisJson> {
  try {
    const { title, rung = null, survives, refused, notes } = await diagnose(store);
    return { title, rung, survives, notes, ...(refused !== undefined && { refused }) };
  } catch (error) {
    if (isNevertwiceError(error)) throw error;
    throw untold(error);
  }
}

function untold(cause: unknown): NevertwiceError {
  return new NevertwiceError("unavailable", "the store did not tell its settings.", { cause });
}
