/** Finds the name that was probably meant, for an error about a name that does not exist. */

/** The most similar known name, if it is similar enough: `retry` for `retyr`, `leaseMs` for `lease`, undefined for `banana`. */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  const plain = normalize(name);
  let best: string | undefined;
  let least = Math.max(1, Math.floor(plain.length / 3)) + 1;
  for (const candidate of known) {
    const edits = editsBetween(plain, normalize(candidate));
    if (edits >= least) continue;
    best = candidate;
    least = edits;
  }
  return best;
}

/** A question for the end of an error message; empty if no known name is similar. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const near = nearest(name, known);
  return near === undefined ? "" : ` Did you mean ${JSON.stringify(near)}?`;
}

/** The unit at the end of the name of a duration. */
const UNIT = /(?:(?<=[a-z])M[sS]|[-_ ][mM][sS])$/;

/** `one_for_one`, `oneForOne` and `one-for-one` count as the same name, and so do `lease` and `leaseMs`. */
function normalize(name: string): string {
  return name.replace(UNIT, "").replace(/[-_ ]/g, "").toLowerCase();
}

/** How many characters have to be inserted, removed, changed or swapped with their neighbour. */
export function editsBetween(a: string, b: string): number {
  // `rows[i][j]`: between the first i characters of `a` and the first j of `b`.
  const rows: number[][] = [];
  const at = (i: number, j: number) => rows[i]?.[j] ?? i + j;
  for (let i = 1; i <= a.length; i++) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? at(i - 2, j - 2) + 1 : change;
      rows[i]?.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, change, swap));
    }
  }
  return at(a.length, b.length);
}
