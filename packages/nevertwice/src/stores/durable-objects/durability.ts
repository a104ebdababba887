/** Which faults the records in Durable Objects survive, by what Cloudflare documents (for the doctor). */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";

export interface ObjectFacts {
  readonly name: string;
  readonly shards: number;
  /** The size of the first object's database. */
  readonly bytes: number;
}

/** Cloudflare's limit for the database of one object. */
const MAX_BYTES = 10_000_000_000;
const WARN_BYTES = 0.8 * MAX_BYTES;

const DOCUMENTED: Finding = {
  survives: "yes",
  because:
    "as Cloudflare documents it, a response leaves an object only after its writes are stored on several machines in different data centers; nothing here can read or check that setting",
};

export function judgeDurability({ name, shards, bytes }: ObjectFacts): StoreSettings {
  return {
    title: `Durable Objects ${name}, ${shards} ${shards === 1 ? "object" : "objects"}`,
    survives: {
      "our-crash": { survives: "yes", because: "the records are in the objects, not in the Worker" },
      "store-crash": DOCUMENTED,
      "power-loss": DOCUMENTED,
      failover: DOCUMENTED,
    },
    notes: [
      "under wrangler dev and miniflare the objects are files on this machine: they survive a crash of the process, and no loss of the machine",
      "leases are judged by the clock of the machine that runs the object; it may go back when the object moves, fences still grow",
      restoreNote(
        "that clock",
        "none is needed: point-in-time recovery is always on and restores to any moment up to the present",
      ),
      `the number of objects cannot be changed later: the store refuses any other number than ${shards} for these records`,
      ...(bytes > WARN_BYTES
        ? [
            `the first object's database has ${bytes} of at most ${MAX_BYTES} bytes: use more objects under another name, or a shorter retention`,
          ]
        : []),
    ],
  };
}
