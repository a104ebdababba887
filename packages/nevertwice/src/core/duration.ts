/** Durations as text, as people write them in environment variables, manifests and on the command line: `30s`, `1h30m`. */
import { NevertwiceError } from "./errors.ts";
import { wholeFrom } from "./option-checks.ts";

const DURATION = /^(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;
/** The units of the groups in `DURATION`, in the same order. */
const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

/**
 * Parses a duration into milliseconds. `name` is the name of the value in the error. A number without a unit is refused.
 * @throws `options-invalid`
 */
export function durationMs(name: string, text: string): number {
  const counts = DURATION.exec(text)?.slice(1);
  if (counts === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      `${name} is ${JSON.stringify(text)}; it must be whole numbers with their units (d, h, m, s, ms), the largest first, e.g. "30s" or "1h30m".`,
    );
  }
  const totalMs = UNITS.reduce((sum, [, unitMs], index) => sum + Number(counts[index] ?? 0) * unitMs, 0);
  wholeFrom(0)(`${name} in milliseconds`, totalMs);
  return totalMs;
}

/** Formats milliseconds in the largest unit that gives a whole number of at least 2: `30s`, `60s`, `24h`. */
export function formatDuration(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, size]) => ms % size === 0 && ms / size >= 2) ?? ["ms", 1];
  return `${ms / unitMs}${unit}`;
}
