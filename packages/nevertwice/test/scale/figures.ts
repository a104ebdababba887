/** What a trial measured: a line on the screen, and in a campaign a line for the page that is kept. */
import { appendFileSync } from "node:fs";
import type { Store } from "../../src/core/store.ts";

/** Where a campaign collects its figures: one JSON line for each trial on each store. */
const COLLECTED = process.env.NEVERTWICE_SCALE_FIGURES;

export interface Figures {
  /** The title of the trial, the same on every store. */
  readonly trial: string;
  /** What was measured, as a sentence without its end. */
  readonly figures: string;
}

export async function report(store: Pick<Store, "settings">, measured: Figures): Promise<void> {
  // The one DynamoDB that the trials know is an emulator, and its table has a name that nobody needs.
  const title = ((await store.settings?.())?.title ?? "").replace(
    /^DynamoDB table.*/,
    "An emulator of DynamoDB",
  );
  reportOn(title, measured);
}

/** The same for a trial whose figures belong to something else than a store. */
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
