/** The store doctor: reads the store's live settings, and says which faults an acknowledged claim survives with them. */
import { FAULTS, type Fault, type Finding, formatAdvice, type StoreSettings } from "./durability.ts";
import type { Store } from "./store.ts";

export type { Fault, Finding, StoreSettings } from "./durability.ts";

/** What `diagnose` found out about a store: which faults its acknowledged claims survive, and why. */
export interface Diagnosis extends StoreSettings {
  /** The hardest fault that a claim survives, along with all easier ones; undefined if it does not survive our own crash. */
  readonly rung: Fault | undefined;
  /** The diagnosis as text, with a line for each fault. */
  toString(): string;
}

/**
 * Reads the live settings of a store and says which faults an acknowledged claim survives with them. It
 * changes nothing. Rejects with the store's error if its settings cannot be read.
 * @example
 * ```ts
 * import { diagnose } from "nevertwice/doctor";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const { rung, notes } = await diagnose(memoryStore());
 * console.log(rung, notes); // undefined: a claim in memory does not survive a crash of this process
 * ```
 */
export async function diagnose(store: Pick<Store, "settings">): Promise<Diagnosis> {
  const settings = (await store.settings?.()) ?? UNREADABLE;
  return { ...settings, rung: highestRung(settings), toString: () => formatDiagnosis(settings) };
}

const UNREADABLE: StoreSettings = {
  title: "a store that does not tell its settings",
  survives: {
    "our-crash": unread(),
    "store-crash": unread(),
    "power-loss": unread(),
    failover: unread(),
  },
  notes: [],
};

function unread(): Finding {
  return { survives: "unknown", because: "the store has no settings() to read" };
}

function highestRung({ survives, refused }: StoreSettings): Fault | undefined {
  if (refused !== undefined) return undefined;
  const firstNot = FAULTS.findIndex((fault) => survives[fault].survives !== "yes");
  return FAULTS[(firstNot === -1 ? FAULTS.length : firstNot) - 1];
}

function formatDiagnosis({ title, survives, refused, notes }: StoreSettings): string {
  const width = Math.max(...FAULTS.map((fault) => fault.length));
  return [
    title,
    ...(refused === undefined ? [] : [`  refused: ${refused}`]),
    ...FAULTS.map((fault) => {
      const finding = survives[fault];
      return `  ${fault.padEnd(width)}  ${finding.survives.padEnd(7)}  ${formatAdvice(finding)}`;
    }),
    ...notes.map((note) => `  note: ${note}`),
  ].join("\n");
}
