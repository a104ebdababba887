/** The store doctor: which faults an acknowledged claim survives, by the store's live settings, and how to survive more. */
import { adviceOf, FAULTS, type Fault, type Finding, type StoreSettings } from "./settings.ts";
import type { Store } from "./store.ts";

export type { Fault, Finding, StoreSettings } from "./settings.ts";

export interface Diagnosis extends StoreSettings {
  /** The hardest fault survived together with all before it; undefined if not even our own crash is. */
  readonly rung: Fault | undefined;
  /** The diagnosis for people, a line for each fault. */
  toString(): string;
}

export async function diagnose(store: Pick<Store, "settings">): Promise<Diagnosis> {
  const settings = (await store.settings?.()) ?? UNREADABLE;
  return { ...settings, rung: rungOf(settings), toString: () => textOf(settings) };
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

function rungOf({ survives, refused }: StoreSettings): Fault | undefined {
  if (refused !== undefined) return undefined;
  const firstNot = FAULTS.findIndex((fault) => survives[fault].survives !== "yes");
  return FAULTS[(firstNot === -1 ? FAULTS.length : firstNot) - 1];
}

function textOf({ title, survives, refused, notes }: StoreSettings): string {
  const width = Math.max(...FAULTS.map((fault) => fault.length));
  return [
    title,
    ...(refused === undefined ? [] : [`  refused: ${refused}`]),
    ...FAULTS.map((fault) => {
      const finding = survives[fault];
      return `  ${fault.padEnd(width)}  ${finding.survives.padEnd(7)}  ${adviceOf(finding)}`;
    }),
    ...notes.map((note) => `  note: ${note}`),
  ].join("\n");
}
