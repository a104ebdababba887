/**
 * Knows in whose work a call is made. A transaction inside the work of another one on the same database would need a second
 * connection while the first is held: with a full pool, all of them would wait for one another.
 */
import type { AsyncLocalStorage } from "node:async_hooks";
import { NevertwiceError } from "../core/errors.ts";
import { warnOfRequests } from "./request-warning.ts";

/** The work of one transaction. What it started and did not await may run on after its end. */
interface OpenWork {
  readonly source: object;
  readonly operation: string;
  readonly around: OpenWork | undefined;
  isOver: boolean;
}

/** Created by the first transaction, since `import "nevertwice"` loads no module for it. */
let inside: AsyncLocalStorage<OpenWork> | undefined;

/** Runs the work of a transaction on this source. */
export async function whileInside<T>(
  source: object,
  operation: string,
  work: () => T | PromiseLike<T>,
): Promise<T> {
  inside ??= createStorage();
  // Without it, a nested transaction is not recognised, and waits for a connection like any other call.
  if (inside === undefined) return work();
  const open: OpenWork = { source, operation, around: inside.getStore(), isOver: false };
  try {
    return await inside.run(open, work);
  } finally {
    open.isOver = true;
  }
}

/** Throws `options-invalid` in the work of a transaction on the same source. */
export function refuseNested(source: object): void {
  if (openWork((work) => work.source === source) === undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    "a transaction was asked for inside the work of another one on the same database, and would need a second connection while the first is held. Use once(tx, request, work) of nevertwice/transaction with the transaction that the work was given.",
  );
}

/** Undefined on platforms without Node's modules. */
function createStorage(): AsyncLocalStorage<OpenWork> | undefined {
  const { process } = globalThis as { readonly process?: Partial<NodeJS.Process> };
  const Storage = process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
  if (Storage === undefined) return undefined;
  warnOfRequests(() => openWork(() => true)?.operation);
  return new Storage();
}

/** The innermost work that this call is made in, of those that are not over. */
function openWork(fits: (work: OpenWork) => boolean): OpenWork | undefined {
  for (let work = inside?.getStore(); work !== undefined; work = work.around)
    if (!work.isOver && fits(work)) return work;
  return undefined;
}
