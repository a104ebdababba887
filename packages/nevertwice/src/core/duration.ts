/** Durations as people write them where there are no numbers with names: `30s`, `24h`, `1h30m`. */
import { NevertwiceError } from "./errors.ts";
import { wholeFrom } from "./policy.ts";

const DURATION = /^(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;
/** Of the groups above, in their order. */
const UNITS_MS = [86_400_000, 3_600_000, 60_000, 1_000, 1] as const;

/** Milliseconds. `name` is what the error says was wrong. A number without a unit is refused: nobody can tell which it meant. */
export function durationMs(name: string, text: string): number {
  const counts = DURATION.exec(text)?.slice(1);
  if (counts === undefined) {
    throw new NevertwiceError(
      "options-invalid",
      `${name} is ${JSON.stringify(text)}; it must be whole numbers with their units (d, h, m, s, ms), the largest first, e.g. "30s" or "1h30m".`,
    );
  }
  const totalMs = UNITS_MS.reduce((sum, unitMs, index) => sum + Number(counts[index] ?? 0) * unitMs, 0);
  wholeFrom(0)(`${name} in milliseconds`, totalMs);
  return totalMs;
}
