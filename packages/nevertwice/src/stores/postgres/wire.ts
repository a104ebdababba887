/** Values as Postgres writes them in text: the same for every driver, whatever its own serializers do. */

/** An array literal of texts; undefined is NULL. */
export function textArray(values: Iterable<string | undefined>): string {
  let text = "{";
  for (const value of values) {
    if (text.length > 1) text += ",";
    text += value === undefined ? "NULL" : quoted(value);
  }
  return `${text}}`;
}

/** An array literal of what needs no quotes: numbers and booleans. */
export function plainArray(values: readonly (number | boolean | undefined)[]): string {
  return `{${values.map((value) => value ?? "NULL").join(",")}}`;
}

/** What JSON escapes otherwise than an array literal does: control characters, and halves of surrogate pairs. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const UNLIKE_JSON = /[\u0000-\u001f\ud800-\udfff]/;

/** Outcomes are large, and JSON's quotes and backslashes are an array literal's: the platform's own is three times as fast. */
function quoted(text: string): string {
  return UNLIKE_JSON.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : JSON.stringify(text);
}

export function microseconds(ms: number): number {
  return Math.round(ms * 1_000);
}

/** A moment, from text in microseconds. */
export function momentMs(text: string): number {
  return Math.floor(Number(text) / 1_000);
}

/** What is left of a lease, from text in microseconds. Rounded up: it has not ended before. */
export function leftMs(text: string): number {
  return Math.ceil(Number(text) / 1_000);
}
