/**
 * Knows in whose work a call is made. A transaction inside the work of another one on the same database would need a second
 * connection while the first is held: with a full pool, all of them would wait for one another.
 */
import type { AsyncLocalStorage } from "node:async_hooks";
import { NevertwiceError } from "../core/errors.ts";

/** Created by the first transaction, since `import "nevertwice"` loads no module for it. */
let inside: AsyncLocalStorage<readonly object[]> | undefined;

/** Runs the work of a transaction on this source. */
export function whileInside<T>(source: object, work: () => T): T {
  if (inside === undefined) {
    const { AsyncLocalStorage: Storage } = process.getBuiltinModule("node:async_hooks");
    inside = new Storage();
  }
  return inside.run([...(inside.getStore() ?? []), source], work);
}

/** Throws `options-invalid` in the work of a transaction on the same source. */
export function refuseNested(source: object): void {
  if (!inside?.getStore()?.includes(source)) return;
  throw new NevertwiceError(
    "options-invalid",
    "a transaction was asked for inside the work of another one on the same database, and would need a second connection while the first is held. Use once(tx, request, work) of nevertwice/transaction with the transaction that the work was given.",
  );
}
