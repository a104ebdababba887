/** Counts the keys of each node that wait for a decision. The store is asked rarely, and only while someone watches. */
import type { Guard } from "nevertwice";
import { compositeKey } from "nevertwice";
import type { NetworkModel } from "nevertwice/pipeline";

const EVERY_MS = 5_000;
/** More are shown as this many. */
const MAX_HELD = 100;

/** The last known counts. A node is missing while its count is unknown: before the first answer, or if the store fails. */
export function createHeldKeys(
  model: NetworkModel,
  guard: Pick<Guard, "listUnknown">,
  now: () => number,
): () => Promise<ReadonlyMap<string, number>> {
  const nodes = [...model.nodes.values()].filter(({ contract }) => contract.idempotency !== undefined);
  let counts: ReadonlyMap<string, number> = new Map();
  let askedAt = Number.NEGATIVE_INFINITY;
  let isAsking = false;

  async function ask(): Promise<void> {
    const found = new Map<string, number>();
    for (const { name } of nodes) {
      const scope = compositeKey(model.id, name).text;
      const page = await guard.listUnknown({ scope, limit: MAX_HELD }).catch(() => undefined);
      if (page !== undefined) found.set(name, page.records.length);
    }
    counts = found;
  }

  return async () => {
    if (isAsking || now() - askedAt < EVERY_MS) return counts;
    isAsking = true;
    askedAt = now();
    // Not awaited: a store that answers slowly must not delay the figures of this process.
    void ask().finally(() => {
      isAsking = false;
    });
    return counts;
  };
}
