/** The order in which people expect names: seat 2 before seat 10. */

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** A sorted copy of the rows. Names that are equal for people are in the order of their characters. */
export function inNaturalOrder<Row extends { readonly name: string }>(rows: readonly Row[]): readonly Row[] {
  return [...rows].sort((a, b) => COLLATOR.compare(a.name, b.name) || (a.name < b.name ? -1 : 1));
}
