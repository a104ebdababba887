/**
 * The number of connections that a listener may have. Each connection is a file descriptor, and the process may open a
 * limited number of them. A quarter each is for the gateway's clients, the connections to the service, the API, and the
 * store with everything else. So a flood at one listener leaves descriptors for the others.
 */
import { readFileSync } from "node:fs";

const PARTS = 4;
const LEAST = 16;

/** The wanted number, but at most a quarter of the descriptors of the process. */
export function connectionLimit(wanted: number, limit = descriptorLimit()): number {
  return Math.max(LEAST, Math.min(wanted, Math.floor(limit / PARTS)));
}

/** Infinity if the system does not report a limit. */
function descriptorLimit(): number {
  try {
    const [, soft] =
      /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined || soft === "unlimited" ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
