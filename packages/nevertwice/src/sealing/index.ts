/** Wraps any store, and encrypts outcomes before they leave this process. */
import { NevertwiceError } from "../core/errors.ts";
import { notKept } from "../core/outcome.ts";
import type { KeptStep, ListRequest, Store, StoreRecord } from "../core/store.ts";
import { storeTransactions } from "../core/store-transactions.ts";
import { keyringFrom, type SealingOptions } from "./keyring.ts";
import { roomWithin, seal, stepId, unseal } from "./seal.ts";
import { sealedTransactions } from "./sealed-transactions.ts";

export type { SealingKey, SealingOptions } from "./keyring.ts";

/** Marks every sealed store, and copies of it. */
const IS_SEALED = Symbol.for("nevertwice.sealed");

const UNREADABLE = notKept("unreadable");

/**
 * Returns the same store with its outcomes sealed by AES-256-GCM under the current key. If an outcome cannot be opened (its
 * key is missing, it was altered, or it belongs to another record), a claim fails with `sealing-failed`: the work is done
 * and does not run again. `read` and `list` show such an outcome as not kept, `unreadable`. Options given as a function are
 * read at every use. Only outcomes are sealed, those of steps too: keys, scopes, operations, fingerprints, names of steps,
 * states and times are not encrypted.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { randomBytes } from "node:crypto";
 * import { createGuard } from "nevertwice";
 * import { sealed } from "nevertwice/sealing";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const key = randomBytes(32).toString("base64"); // in production: from your secret manager
 * const store = sealed(memoryStore(), { keys: { "2026-01": key }, current: "2026-01" });
 * const guard = createGuard({ store });
 * await guard.close();
 * ```
 */
export function sealed<S extends Store>(store: S, options: SealingOptions | (() => SealingOptions)): S {
  checkStore(store);
  const keyring = keyringFrom(options);

  /** A step that cannot be opened is still a finished step: it is not repeated, and its outcome is not kept. */
  function shownSteps(id: string, steps: readonly KeptStep[]): readonly KeptStep[] {
    return steps.map((step) => {
      try {
        return { ...step, outcome: unseal(keyring(), stepId(id, step.name), step.outcome) };
      } catch {
        return { ...step, outcome: UNREADABLE };
      }
    });
  }

  /** For `read` and `list`: a record whose outcome cannot be opened is still shown, and does not hide the others. */
  function shown(record: StoreRecord): StoreRecord {
    if (record.steps !== undefined) return { ...record, steps: shownSteps(record.id, record.steps) };
    if (record.outcome === undefined) return record;
    try {
      return { ...record, outcome: unseal(keyring(), record.id, record.outcome) };
    } catch {
      return { ...record, outcome: UNREADABLE };
    }
  }

  const sealing: Pick<Store, "claim" | "complete" | "read"> = {
    async claim(request) {
      // If the keys cannot be read the claim fails, since the outcome of its work could not be stored.
      keyring();
      const answer = await store.claim(request);
      if (answer.status === "new" && answer.steps !== undefined)
        return { ...answer, steps: shownSteps(request.id, answer.steps) };
      if (answer.status !== "completed") return answer;
      return { ...answer, outcome: unseal(keyring(), request.id, answer.outcome) };
    },

    async complete(request) {
      return store.complete({ ...request, outcome: seal(keyring(), request.id, request.outcome) });
    },

    async read(id, bound) {
      const record = await store.read(id, bound);
      return record && shown(record);
    },
  };

  const descriptors: PropertyDescriptorMap = {
    ...passedOn(store),
    ...Object.getOwnPropertyDescriptors(sealing),
    [IS_SEALED]: { value: true, enumerable: true },
  };
  if ("keepStep" in store) {
    const keepSealed: Store["keepStep"] = async (request) => {
      const { id, name, outcome } = request;
      return store.keepStep?.({ ...request, outcome: seal(keyring(), stepId(id, name), outcome) }) ?? false;
    };
    // Read at every use: a store may learn only after it has connected that its tables cannot keep steps.
    descriptors.keepStep = { get: () => store.keepStep && keepSealed, enumerable: true };
  }
  const { list } = store;
  if (list !== undefined) {
    const listShown = async (request: ListRequest) => {
      const page = await list.call(store, request);
      return { ...page, records: page.records.map(shown) };
    };
    descriptors.list = { value: listShown, enumerable: true };
  }
  const transactions = storeTransactions(store);
  if (transactions !== undefined)
    descriptors.transactions = { value: sealedTransactions(transactions, keyring), enumerable: true };
  if ("maxOutcomeBytes" in store) {
    const room = () => (store.maxOutcomeBytes === undefined ? undefined : roomWithin(store.maxOutcomeBytes));
    descriptors.maxOutcomeBytes = { get: room, enumerable: true };
  }
  return Object.defineProperties({}, descriptors) as S;
}

/** Passes on all members of the store, including those of its class: methods bound to the store, and other members as getters. */
function passedOn(store: Store): PropertyDescriptorMap {
  const descriptors: PropertyDescriptorMap = {};
  const all = store as unknown as Readonly<Record<PropertyKey, unknown>>;
  for (
    let owner: object = store;
    owner !== Object.prototype && owner !== null;
    owner = Object.getPrototypeOf(owner)
  ) {
    for (const name of Reflect.ownKeys(owner)) {
      if (name === "constructor" || Object.hasOwn(descriptors, name)) continue;
      const value = all[name];
      descriptors[name] =
        typeof value === "function"
          ? { value: value.bind(store), enumerable: true }
          : { get: () => all[name], enumerable: true };
    }
  }
  return descriptors;
}

function checkStore(store: Store): void {
  if (typeof store?.claim !== "function")
    throw new NevertwiceError("options-invalid", "the store is missing: sealed(store, { keys, current }).");
  if (IS_SEALED in store)
    throw new NevertwiceError(
      "options-invalid",
      "this store is already sealed; give all keys to one call of sealed().",
    );
}
