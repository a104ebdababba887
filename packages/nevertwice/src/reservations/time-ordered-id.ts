/** Ids of commitments and of transactions, in the form of a UUID of version 7. */
import { randomUUID } from "node:crypto";

const MAX_COUNT = 0xfff;
let lastMs = 0;
let count = 0;

/**
 * Ids that sort in the order in which this process draws them. Each index on a random id writes another page for each row;
 * an index on these writes few pages for a whole group. 62 bits are random, so that no two processes draw the same id and
 * nobody can guess one. A clock that is set back does not turn the order around.
 */
export function createTimeOrderedId(now = Date.now()): string {
  if (now > lastMs) {
    lastMs = now;
    count = 0;
  } else if (count < MAX_COUNT) count++;
  else {
    lastMs++;
    count = 0;
  }
  const time = lastMs.toString(16).padStart(12, "0");
  const counted = count.toString(16).padStart(3, "0");
  // The last two groups of a random UUID contain the variant, which both versions have, and 62 random bits.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counted}${randomUUID().slice(18)}`;
}
