/** A store whose outcomes are encrypted before they leave this process, around any other store. */
import { NevertwiceError } from "../core/errors.ts";
import { notKept } from "../core/outcome.ts";
import type { ListRequest, Store, StoreRecord } from "../core/store.ts";
import { keyringFrom, type SealingOptions } from "./keyring.ts";
import { roomWithin, seal, unseal } from "./seal.ts";

export type { SealingKey, SealingOptions } from "./keyring.ts";

/** On every sealed store, and on copies of it. */
const IS_SEALED = Symbol.for("nevertwice.sealed");

const UNREADABLE = notKept("unreadable");

/**
 * The same store, with its outcomes sealed by AES-256-GCM under the current key. A claim of work whose outcome does not
 * open (its key is missing, it was altered, it is another record's) fails with `sealing-failed`: the work is done and is
 * not run again. Reading and listing show such an outcome as not kept, `unreadable`. Options given as a function are
 * asked for at every use. Only outcomes are sealed: keys, scopes, operations, fingerprints, states and times stay as they are.
 */
export function sealed<S extends Store>(store: S, options: SealingOptions | (() => SealingOptions)): S {
  checkStore(store);
  const keyring = keyringFrom(options);

  /** For those who look at a record: one that does not open hides neither itself nor its neighbours. */
  function shown(record: StoreRecord): StoreRecord {
    if (record.outcome === undefined) return record;
    try {
      return { ...record, outcome: unseal(keyring(), record.id, record.outcome) };
    } catch {
      return { ...record, outcome: UNREADABLE };
    }
  }

  const sealing: Pick<Store, "claim" | "complete" | "read"> = {
    async claim(request) {
      // Keys that cannot be had refuse the claim: its work would have an outcome that cannot be kept.
      keyring();
      const answer = await store.claim(request);
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
  const { list } = store;
  if (list !== undefined) {
    const listShown = async (request: ListRequest) => {
      const page = await list.call(store, request);
      return { ...page, records: page.records.map(shown) };
    };
    descriptors.list = { value: listShown, enumerable: true };
  }
  if ("maxOutcomeBytes" in store) {
    const room = () => (store.maxOutcomeBytes === undefined ? undefined : roomWithin(store.maxOutcomeBytes));
    descriptors.maxOutcomeBytes = { get: room, enumerable: true };
  }
  return Object.defineProperties({}, descriptors) as S;
}

/** All that the store has, from its class too: methods on the store itself, and what else it says as it stands when asked. */
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
      "this store is sealed already; give all keys to one sealed().",
    );
}
