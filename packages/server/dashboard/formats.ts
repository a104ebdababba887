/** Formats numbers, times and durations for people. */

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export function numberWords(value: number): string {
  return Math.abs(value) >= 10_000 ? COMPACT.format(value) : NUMBER.format(value);
}

export function momentWords(at: number): string {
  return MOMENT.format(at);
}

export function clockWords(at: number): string {
  return CLOCK.format(at);
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** The two largest units that are not zero: `2h 5m`. */
export function durationWords(ms: number): string {
  if (ms < 1_000) return ms <= 0 ? "0s" : "<1s";
  const parts: string[] = [];
  let left = ms;
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0 || parts.length > 0) parts.push(`${count}${unit}`);
    if (parts.length === 2) break;
  }
  return parts.filter((part) => !part.startsWith("0")).join(" ");
}

/** How long something took: `3.2 ms`, `1.50 s`. */
export function tookWords(ms: number): string {
  if (ms < 0.1) return "<0.1 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(2)} s`;
}

/** A number that was perhaps not counted to its end: `10K+`. */
export function countWords({
  count,
  isComplete,
}: {
  readonly count: number;
  readonly isComplete: boolean;
}): string {
  return `${numberWords(count)}${isComplete ? "" : "+"}`;
}

/** A size: `512 bytes`, `1.2 MB`. */
export function bytesWords(bytes: number): string {
  if (bytes < 1_000) return plural(bytes, "byte");
  return bytes < 1_000_000 ? `${NUMBER.format(bytes / 1_000)} kB` : `${NUMBER.format(bytes / 1_000_000)} MB`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${numberWords(count)} ${count === 1 ? one : many}`;
}
