/** Reports what a trial measured: prints a line, and in a campaign stores it for the results page. */
import { appendFileSync } from "node:fs";
import type { Store } from "../../src/core/store.ts";

/** Where a campaign collects its figures: one JSON line for each trial on each store. */
const COLLECTED = process.env.NEVERTWICE_SCALE_FIGURES;

export interface Figures {
  /** The title of the trial, the same on every store. */
  readonly trial: string;
  /** What was measured, as a sentence without the full stop. */
  readonly figures: string;
}

export async function report(store: Pick<Store, "settings">, measured: Figures): Promise<void> {
  // The DynamoDB of the trials is always an emulator, and the name of its table does not matter.
  const title = ((await store.settings?.())?.title ?? "").replace(
    /^DynamoDB table.*/,
    "An emulator of DynamoDB",
  );
  reportOn(title, measured);
}

/** The same for a trial whose figures do not belong to a store. */
export function reportOn(title: string, { trial, figures }: Figures): void {
  console.log(`${trial} · ${title} · ${figures}`);
  if (COLLECTED) appendFileSync(COLLECTED, `${JSON.stringify({ trial, store: title, figures })}\n`);
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en");
}

export function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 2 : 0)} ms`;
}

export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

export function tellCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([what, times]) => `${what} ${count(times)}`)
    .join(", ");
}
