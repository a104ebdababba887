/** Reads the pages of stores in docs/, for tests that compare their tables with what they measure. */
import { readdirSync, readFileSync } from "node:fs";

const DOCS = new URL("../../../docs/", import.meta.url);

/** The text of docs/stores.md and of every docs/stores-….md. */
export const STORES = readdirSync(DOCS)
  .filter((name) => /^stores(-[a-z]+)?\.md$/.test(name))
  .map((name) => readFileSync(new URL(name, DOCS), "utf8"))
  .join("\n");

/** The cell of a store in the column whose title begins like this. Throws if there is none. */
export function storeCell(store: string, column: string): string {
  const tables = STORES.split("\n\n").filter((block) => block.startsWith("| "));
  for (const table of tables) {
    const [titles = [], ...rows] = table.split("\n").map(cellsOf);
    const place = titles.findIndex((title) => title.startsWith(column));
    const cell = rows.find(([name]) => name === store)?.[place];
    if (cell !== undefined) return cell;
  }
  throw new Error(`no page of stores has "${column}" of ${store}`);
}

/** How many bytes a key with an outcome of 1 kB takes at most. */
export function documentedBytes(store: string): number {
  return Number(storeCell(store, "bytes of a key with an outcome of 1 kB").replaceAll(",", ""));
}

/** How many bytes a key with an outcome of 300 bytes takes at most, with so many calls in flight. */
export function documentedSmallBytes(store: string, inFlight: number): number {
  return Number(storeCell(store, `300 bytes, ${inFlight} in flight`).replaceAll(",", ""));
}

/** How many of the published cases pass in the set-up of this row, and why others are left out. */
export function documentedCases(row: string): { readonly passed: number; readonly leftOut: string } {
  return { passed: Number(storeCell(row, "cases that pass")), leftOut: storeCell(row, "left out") };
}

function cellsOf(row: string): readonly string[] {
  return row
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
}
