/**
 * How many connections a listener may have. Each is a file descriptor, and a process may open only so many: of four
 * parts the gateway's clients have one, the connections to the service behind them one, the API one, and the last is for
 * the store and everything else. So a flood at one listener leaves the other its descriptors.
 */
import { readFileSync } from "node:fs";

const PARTS = 4;
const LEAST = 16;

/** As many as are wanted, or as a quarter of the process's descriptors. */
export function connectionsFor(wanted: number, limit = descriptorLimit()): number {
  return Math.max(LEAST, Math.min(wanted, Math.floor(limit / PARTS)));
}

/** Infinity where the system does not tell. */
function descriptorLimit(): number {
  try {
    const [, soft] =
      /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined || soft === "unlimited" ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
