/** What somebody probably meant who wrote a word that does not exist. */

/** The nearest of the words that do, if it is near: `retyr` is `retry`, and nothing at all is `banana`. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  const plain = plainOf(word);
  let best: string | undefined;
  let least = Math.max(1, Math.floor(plain.length / 3)) + 1;
  for (const candidate of known) {
    const edits = distance(plain, plainOf(candidate));
    if (edits >= least) continue;
    best = candidate;
    least = edits;
  }
  return best;
}

/** `one_for_one`, `oneForOne` and `one-for-one` are one word. */
function plainOf(word: string): string {
  return word.replace(/[-_ ]/g, "").toLowerCase();
}

/** How many characters have to be put in, taken out, changed or swapped. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let edits = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) edits = Math.min(edits, (before[j - 2] ?? 0) + 1);
      next.push(edits);
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
