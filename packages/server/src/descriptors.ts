/** How many connections the process has room for: each is a file descriptor, and so is every file and database connection. */
import { readFileSync } from "node:fs";

/** For the API's listener, the store, and everything else that is no connection of the gateway. */
const RESERVED = 256;
/** A client's connection, and the one to the service behind it. */
const PER_CLIENT = 2;
const LEAST = 16;

/** As many connections of clients as are wanted, or as the descriptors of this process are enough for. */
export function descriptorsFor(wanted: number, limit = descriptorLimit()): number {
  return Math.max(LEAST, Math.min(wanted, Math.floor((limit - RESERVED) / PER_CLIENT)));
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
